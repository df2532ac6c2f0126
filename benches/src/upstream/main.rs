//! The upstream server of all measured proxies, which does as little as a server can.
//!
//! ```text
//!   HTTP/1.1 ──► http1 ─┐  request read to its end, its last bytes kept
//!   h2c ───────► http2 ─┴─► a V2 response whose output is those bytes
//! ```
//!
//! A response therefore proves that the end of its own request arrived, and costs no more than a constant one.

mod http1;
mod http2;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::net::{TcpListener, TcpStream};

/// Responds to every V2 inference with the last kilobyte of its request, as OUTPUT0, FP32, [1, 256].
///
/// Responds to GET with 200 and no body, so that readiness probes succeed. Runs until it is killed.
#[derive(Debug, Parser)]
#[command(name = "upstream", after_help = "Example:\n  taskset -c 1 upstream --http-port 9000 --grpc-port 9001")]
struct Args {
    /// Port for HTTP/1.1 with keep-alive
    #[arg(long)]
    http_port: u16,
    /// Port for gRPC, HTTP/2 without TLS
    #[arg(long)]
    grpc_port: u16,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("upstream: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("cannot start")?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let plain = bind(args.http_port).await?;
        let grpc = bind(args.grpc_port).await?;
        loop {
            // Errors of a connection are not reported here, because its client sees them.
            tokio::select! {
                stream = accept(&plain) => {
                    let connection = http1::serve(stream?);
                    tokio::task::spawn_local(async { drop(connection.await) });
                }
                stream = accept(&grpc) => {
                    let connection = http2::serve(stream?);
                    tokio::task::spawn_local(async { drop(connection.await) });
                }
            }
        }
    })
}

async fn bind(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}"))
}

async fn accept(listener: &TcpListener) -> anyhow::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Number of bytes returned: 256 elements of FP32.
const SIZE: usize = 1024;

/// The last [`SIZE`] bytes of a body that arrives in pieces, padded with zeros in front.
struct Tail(Vec<u8>);

impl Tail {
    fn new() -> Self {
        Self(vec![0; SIZE])
    }

    fn push(&mut self, piece: &[u8]) {
        if let Some(end) = piece.last_chunk::<SIZE>() {
            self.0.copy_from_slice(end);
        } else {
            self.0.drain(..piece.len());
            self.0.extend_from_slice(piece);
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }
}
