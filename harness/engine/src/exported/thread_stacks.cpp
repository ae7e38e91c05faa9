
// Added for one run, behind the program: writes where its threads are when it dies, or when it hangs.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace rocrepro_stacks {
// A stack that has overflowed is a long one; of its frames the first and the last ones tell.
void* frames[1 << 18];
constexpr int SHOWN = 12;
int out = 2;

void show(const char* why, int number) {
  const int all = backtrace(frames, 1 << 18);
  char line[160];
  auto write_line = [&](int bytes) { (void)!write(out, line, bytes); };
  write_line(std::snprintf(line, sizeof line, "thread %ld %s %d\n", long(syscall(SYS_gettid)), why, number));
  if (all <= 3 * SHOWN) return backtrace_symbols_fd(frames, all, out);
  backtrace_symbols_fd(frames, 2 * SHOWN, out);
  write_line(std::snprintf(line, sizeof line, "frames %d\n", all - 3 * SHOWN));
  backtrace_symbols_fd(frames + all - SHOWN, SHOWN, out);
}

void dying(int signal) { show("signal", signal); }
void asked(int) { show("waits", 0); }

struct Installed {
  Installed() {
    if (const char* file = std::getenv("ROCREPRO_STACKS")) out = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    backtrace(frames, 1);  // loads what it needs while there is memory
    stack_t other = {};
    other.ss_size = 1 << 18;
    other.ss_sp = std::malloc(other.ss_size);
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_handler = dying;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    for (int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
    action.sa_handler = asked;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
    const char* seconds = std::getenv("ROCREPRO_STACKS_AFTER");
    if (seconds) std::thread([=] { look(std::atoi(seconds)); }).detach();
  }

  // Asks every other thread in turn.
  static void look(int seconds) {
    sleep(seconds);
    const long own = syscall(SYS_gettid);
    DIR* tasks = opendir("/proc/self/task");
    while (const dirent* task = tasks ? readdir(tasks) : nullptr) {
      const long thread = std::atol(task->d_name);
      if (thread == 0 || thread == own) continue;
      syscall(SYS_tgkill, getpid(), thread, SIGUSR2);
      usleep(200000);
    }
    _exit(77);
  }
} installed;
}  // namespace rocrepro_stacks
