//! The process that children are forked from. It has libtorch loaded and only one thread, so that a fork of it is a
//! complete process.
//!
//! For each child the server sends it one end of a socket. The fork server passes the socket to the forked child, kills
//! the child when the server closes its end, and writes to the socket how the child ended. The fork server ends when
//! the server is gone.

#![expect(unsafe_code, reason = "copies the process, and ends a copy at once")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

use super::message::{self, Death, Report};
use super::{ARGUMENT, Child, limits};

/// The server's handle of its fork server.
#[derive(Debug)]
pub(super) struct ForkServer {
    /// Control socket: the fork server ends when it is closed.
    control: Option<OwnedFd>,
    pid: Option<Pid>,
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        self.control = None;
        if let Some(pid) = self.pid {
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// A running child, as the fork server sees it.
struct ForkedChild {
    pid: Pid,
    /// Process file descriptor, readable when the child has ended.
    process: OwnedFd,
    /// Socket to the server, which hangs up when the server no longer waits for the child.
    stream: UnixStream,
    killed: bool,
}

impl ForkServer {
    /// Forks this process, which must have no other thread, into a fork server.
    pub(super) fn fork(child: Child) -> io::Result<Self> {
        let (ours, theirs) = control()?;
        // SAFETY: there is no other thread, so no lock is held in the child, and the child never returns from `serve`.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                serve(&theirs, child)
            }
            pid => Ok(Self { control: Some(ours), pid: Pid::from_raw(pid) }),
        }
    }

    /// Starts `program` as a fork server.
    pub(super) fn start(program: &Path) -> io::Result<Self> {
        let (ours, theirs) = control()?;
        let mut command = Command::new(program);
        command.arg(ARGUMENT).stdin(Stdio::from(theirs));
        let started = command.stdout(Stdio::null()).spawn()?;
        Ok(Self { control: Some(ours), pid: Some(Pid::from_child(&started)) })
    }

    /// Makes a child, and returns the socket on which the child waits for a request.
    pub(super) fn child(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let passed = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&passed));
        let control = self.control.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        sendmsg(control, &[IoSlice::new(b"c")], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(ours)
    }
}

fn control() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Serves the control socket on standard input, for a program that was started as a fork server.
pub(super) fn serve_on_standard_input(child: Child) -> ! {
    match io::stdin().as_fd().try_clone_to_owned() {
        Ok(control) => serve(&control, child),
        Err(_) => end(1),
    }
}

/// Makes children until the server is gone.
fn serve(control: &OwnedFd, work: Child) -> ! {
    // SAFETY: the name is NUL-terminated. It distinguishes this process from the server in process lists.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"weir-trials".as_ptr()) };
    let mut children: Vec<ForkedChild> = Vec::new();
    loop {
        let (asked, ended) = wait(control, &mut children);
        for index in ended.into_iter().rev() {
            reap(children.swap_remove(index));
        }
        if !asked {
            continue;
        }
        match receive(control) {
            Ok(Some(stream)) => {
                let child = copy(stream, &mut children, work);
                children.extend(child);
            }
            // The kernel kills the running children when this process ends.
            Ok(None) | Err(_) => end(0),
        }
    }
}

/// Waits until the server sends a message or is gone, or until children have ended. Kills the children whose sockets
/// the server has closed. Returns true if the control socket is readable, and the indices of the children that have
/// ended.
fn wait(control: &OwnedFd, children: &mut [ForkedChild]) -> (bool, Vec<usize>) {
    let mut polled = vec![PollFd::new(control, PollFlags::IN)];
    for child in children.iter() {
        polled.push(PollFd::new(&child.process, PollFlags::IN));
        let hang_up = if child.killed { PollFlags::empty() } else { PollFlags::RDHUP };
        polled.push(PollFd::new(&child.stream, hang_up));
    }
    if poll(&mut polled, None).is_err() {
        return (false, Vec::new());
    }
    let seen: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
    let mut ended = Vec::new();
    for (index, (child, seen)) in children.iter_mut().zip(seen[1..].chunks(2)).enumerate() {
        if !seen[0].is_empty() {
            ended.push(index);
        } else if !seen[1].is_empty() {
            let _ = kill_process(child.pid, Signal::KILL);
            child.killed = true;
        }
    }
    (!seen[0].is_empty(), ended)
}

/// Reaps a child, and reports how it ended.
fn reap(child: ForkedChild) {
    let status = waitpid(Some(child.pid), WaitOptions::empty()).ok().flatten();
    let Some((_, status)) = status else { return };
    let death = match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => Death::Signal(signal),
        (None, code) => Death::Exit(code.unwrap_or_default()),
    };
    let _ = child.stream.set_nonblocking(true);
    let _ = message::write(&child.stream, &Report::Ended(death));
}

/// Receives the socket of a new child; `None` when the server is gone.
fn receive(control: &OwnedFd) -> io::Result<Option<UnixStream>> {
    let (mut byte, mut space) = ([0], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let passed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    Ok(passed.map(UnixStream::from))
}

/// Forks the child of a socket. If the fork fails, the socket is closed, which the server notices.
fn copy(stream: UnixStream, others: &mut Vec<ForkedChild>, work: Child) -> Option<ForkedChild> {
    // SAFETY: there is no other thread, so no lock is held in the child, and the child ends in this branch.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => {
            // The child must not keep the sockets of other children open: the server waits for their end of file.
            others.clear();
            limits::apply();
            message::begin(stream);
            end(work())
        }
        pid => {
            let pid = Pid::from_raw(pid)?;
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
                // Without a descriptor, the end of the child cannot be awaited beside the others.
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::empty());
                return None;
            };
            Some(ForkedChild { pid, process, stream, killed: false })
        }
    }
}

/// Ends this process without running exit handlers, which belong to the server.
fn end(code: i32) -> ! {
    // SAFETY: `_exit` may be called at any time.
    unsafe { libc::_exit(code) }
}
