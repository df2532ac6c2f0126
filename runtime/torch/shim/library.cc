// Libraries of operators that models need. Opening a library runs its code, which may throw or abort the process, for
// instance if it registers an operator twice. So a child process opens each library first.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "error.h"

namespace {

// Time limit of the child process. An initialiser of the library may never return, and a fork of a process with threads
// may inherit a held lock and never end.
constexpr int TRIAL_MILLISECONDS = 10'000;

std::string last_loader_error() {
  const char* message = ::dlerror();
  return message == nullptr ? "the loader gave no reason" : message;
}

void* open(const char* path) {
  return ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// Runs in the child: writes the reason if the library cannot be opened, and ends the process without exit handlers.
[[noreturn]] void try_to_open(const char* path, int report) {
  std::string reason;
  char* thrown = nullptr;
  ::signal(SIGABRT, SIG_DFL);
  ::signal(SIGSEGV, SIG_DFL);
  auto status = weir::guarded(&thrown, [&] {
    if (open(path) == nullptr) {
      reason = last_loader_error();
    }
  });
  if (status != WEIR_OK) {
    reason = thrown;
  }
  (void)!::write(report, reason.data(), reason.size());
  ::_exit(reason.empty() ? 0 : 1);
}

// Reads the child's output until its end; returns false if the child does not end in time.
bool read_all(int report, std::string& text) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(TRIAL_MILLISECONDS);
  char buffer[4096];
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{report, POLLIN, 0};
    int ready = left.count() <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready == 0) {
      return false;
    }
    auto size = ready < 0 ? -1 : ::read(report, buffer, sizeof buffer);
    if (size == 0) {
      return true;
    }
    if (size < 0 && errno != EINTR) {
      return true;
    }
    text.append(buffer, size < 0 ? 0 : static_cast<size_t>(size));
  }
}

// Opens the library in a child process. Returns the reason if that fails; empty if it succeeds or if no child can be
// made.
std::string trial(const char* path) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return "";
  }
  pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    try_to_open(path, ends[1]);
  }
  ::close(ends[1]);
  std::string text;
  bool ended = child < 0 || read_all(ends[0], text);
  ::close(ends[0]);
  if (child < 0) {
    return "";
  }
  if (!ended) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    return "its initialisers did not return within " + std::to_string(TRIAL_MILLISECONDS / 1000) + " s";
  }
  if (text.empty() && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    return "it ends the process that opens it";
  }
  return text;
}

} // namespace

WeirStatus weir_open_operators(const char* path, char** error) {
  return weir::guarded(error, [&] {
    auto reason = trial(path);
    if (reason.empty() && open(path) == nullptr) {
      reason = last_loader_error();
    }
    if (!reason.empty()) {
      throw std::runtime_error(reason);
    }
  });
}
