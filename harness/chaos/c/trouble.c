// Causes trouble in a worker. The variable CHAOS_TROUBLE lists actions, separated by commas, as
// `ACTION[=ARGUMENT]@POINT`.
//
// The library is preloaded. It replaces write(2) and recognises from the worker's events which point the worker has
// reached. If the library is compiled with SHIM, it replaces libamdhip64.so.7, reads CHAOS_SHIM, and passes each call
// on to the real library. The points are then the names of HIP functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef SHIM
#define VARIABLE "CHAOS_SHIM"
#else
#define VARIABLE "CHAOS_TROUBLE"
#endif

// Descriptor of the pipe for events. Set when the first event is written.
static int pipe_fd = -1;
// The worker's first event. It contains the environment, in which the path of the cache may have the maximum length.
static char first_line[65536];
static char *history;
static size_t history_bytes;
static int doubled, dropping, halved;
static unsigned long begun_in_phase;
static char phase[32];

static void raw(int fd, const char *text, size_t bytes) {
    while (bytes > 0) {
        long n = syscall(SYS_write, fd, text, bytes);
        if (n < 0 && errno != EINTR && errno != EAGAIN) return;
        if (n > 0) { text += n; bytes -= (size_t)n; }
    }
}

static void say(int fd, const char *text) { raw(fd, text, strlen(text)); }

// Returns true in the worker. Launchers and other programs inherit the variable, but must not be disturbed.
static int is_worker(void) {
    static int known = -1;
    if (known >= 0) return known;
    char line[16384];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line);
    if (fd >= 0) close(fd);
    known = n > 0 && memmem(line, (size_t)n, "__worker", 8) != NULL;
    return known;
}

static void leave_quietly(int signal) {
    (void)signal;
    _exit(0);
}

static int deeper(volatile int n) {
    volatile char room[4096];
    room[0] = (char)n;
    return n < 0 ? 0 : deeper(n + 1) + room[0];
}

static void *spin(void *unused) {
    (void)unused;
    for (volatile unsigned long n = 0;; n++) {}
    return NULL;
}

static void *wait_for_ever(void *unused) {
    (void)unused;
    for (;;) pause();
    return NULL;
}

static void linger(void) {
    for (int n = 0; n < 300; n++) usleep(100000);
    _exit(0);
}

static void remove_here(void) {
    if (fork() == 0) {
        unsetenv("LD_PRELOAD");
        execl("/bin/sh", "sh", "-c", "case $PWD in */trial-*) rm -rf \"$PWD\";; esac", (char *)NULL);
        _exit(0);
    }
    wait(NULL);
}

// Replaces the files in the worker's folder with links to `target`. If `whole` is true, replaces the folder itself with
// a link to the folder of `target`.
static void plant_link(const char *target, int whole) {
    char script[8192];
    snprintf(script, sizeof script, whole
        ? "case $PWD in */trial-*) d=$PWD; t=$(dirname '%s'); for f in *.bin; do cp '%s' \"$t/$f\"; done; mv \"$d\" \"$d-moved\"; ln -s \"$t\" \"$d\";; esac"
        : "case $PWD in */trial-*) for f in *.bin; do rm \"$f\"; ln -s '%s' \"$f\"; done;; esac", target, target);
    if (fork() == 0) {
        unsetenv("LD_PRELOAD");
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(0);
    }
    wait(NULL);
}

static void act(const char *action, const char *argument) {
    int number = argument ? atoi(argument) : 0;
#define IS(name) (strcmp(action, name) == 0)
    if (IS("exit")) exit(number);
    else if (IS("_exit")) _exit(number);
    else if (IS("exit_group_thread")) { syscall(SYS_exit_group, number); }
    else if (IS("abort")) abort();
    else if (IS("segv")) *(volatile int *)8 = 1;
    else if (IS("trap")) __builtin_trap();
    else if (IS("bus")) { signal(SIGBUS, SIG_DFL); kill(getpid(), SIGBUS); }
    else if (IS("fpe")) { volatile int zero = 0, result; result = 1000 / zero; (void)result; }
    else if (IS("overflow")) deeper(1);
    else if (IS("signal")) kill(getpid(), number);
    else if (IS("hang")) for (;;) pause();
    else if (IS("spin")) spin(NULL);
    else if (IS("sleep")) usleep((useconds_t)number * 1000);
    else if (IS("stop")) kill(getpid(), SIGSTOP);
    else if (IS("deaf")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        for (;;) pause();
    }
    else if (IS("masked")) { signal(SIGSEGV, leave_quietly); *(volatile int *)8 = 1; }
    else if (IS("alarm")) { signal(SIGALRM, SIG_DFL); alarm(1); for (;;) pause(); }
    else if (IS("thread_spin")) { pthread_t t; pthread_create(&t, NULL, spin, NULL); }
    else if (IS("thread_wait")) { pthread_t t; pthread_create(&t, NULL, wait_for_ever, NULL); }
    else if (IS("exec")) { execl("/bin/true", "true", (char *)NULL); }
    else if (IS("exec_sleep")) { unsetenv("LD_PRELOAD"); execl("/bin/sleep", "sleep", "60", (char *)NULL); }
    else if (IS("flood_pipe")) { for (;;) { if (syscall(SYS_write, pipe_fd, "{\"event\":\"done\"}\n", 17) < 0) return; } }
    else if (IS("flood_stderr")) { for (int n = 0; n < number * 16384; n++) say(2, "flood flood flood flood flood flood flood flood flood flood floo\n"); }
    else if (IS("close_pipe")) close(pipe_fd);
    else if (IS("close_stderr")) close(2);
    else if (IS("close_all")) for (int fd = 0; fd < 1024; fd++) close(fd);
    else if (IS("close_stdin")) close(0);
    else if (IS("null_stdin")) { int fd = open("/dev/null", O_RDONLY); dup2(fd, 0); close(fd); }
    else if (IS("second_hello")) {
        if (!first_line[0]) { say(2, "trouble.c: no hello to repeat\n"); _exit(97); }
        say(pipe_fd, first_line);
    }
    else if (IS("other_nonce")) say(pipe_fd, "{\"event\":\"hello\",\"version\":2,\"nonce\":\"0123456789abcdef0123456789abcdef\",\"pid\":1}\n");
    else if (IS("replay")) raw(pipe_fd, history, history_bytes);
    else if (IS("garbage")) raw(pipe_fd, "\x00\xff\xfe{]\x1b[31m garbage\n", 17);
    else if (IS("partial")) say(pipe_fd, "no end of a line");
    else if (IS("unknown_event")) say(pipe_fd, "{\"event\":\"levitate\",\"height\":3}\n");
    else if (IS("forged_done")) say(pipe_fd, "{\"event\":\"done\"}\n");
    else if (IS("forged_bye")) say(pipe_fd, "{\"event\":\"done\"}\n{\"event\":\"phase\",\"phase\":\"teardown\"}\n{\"event\":\"bye\"}\n");
    else if (IS("forged_end")) say(pipe_fd, "{\"event\":\"end\",\"step\":0,\"occurrence\":0,\"code\":999,\"status\":\"hipErrorUnknown\",\"ns\":1}\n");
    else if (IS("forged_missing")) say(pipe_fd, "{\"event\":\"missing\",\"what\":\"libhiprand\",\"why\":\"forged\"}\n");
    else if (IS("huge_line")) { static char block[65536]; memset(block, 'x', sizeof block); for (int n = 0; n < 512; n++) raw(pipe_fd, block, sizeof block); say(pipe_fd, "\n"); }
    else if (IS("double")) doubled = 1;
    else if (IS("drop")) dropping = 1;
    else if (IS("halve")) halved = 1;
    else if (IS("panic_text")) say(2, "thread 'main' panicked at harness/worker/src/lib.rs:1:1:\nnot ours\n");
    else if (IS("panic_exit")) { say(2, "thread '<unnamed>' panicked at library.rs:1:1:\nnot ours\n"); _exit(101); }
    else if (IS("worker_text")) { say(2, "worker: I am no worker\n"); _exit(2); }
    else if (IS("fault_text")) say(2, "Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f0000000000. Reason: Unknown.\n");
    else if (IS("queue_text")) say(2, ":0:rocdevice.cpp:3018: 1234567 us:  Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception. code: 0x1016\n");
    else if (IS("gap_text")) say(2, "rocrepro-device: gap: kernel k: unimplemented instruction v_forged\n");
    else if (IS("escape_text")) say(2, "\x1b]0;owned\x07\x1b[2J\x1b[31mred \xe2\x80\xae" "desrever\xe2\x80\xac\n");
    else if (IS("markdown_text")) say(2, "</details><script>alert(1)</script> ```\n# @everyone\n");
    else if (IS("bytes_text")) raw(2, "\xff\xfe\x00\x80 bytes\n", 11);
    else if (IS("fork")) { if (fork() == 0) linger(); }
    else if (IS("fork_brief")) { if (fork() == 0) { usleep(50000); _exit(0); } }
    else if (IS("setsid")) { if (fork() == 0) { setsid(); linger(); } }
    else if (IS("double_fork")) { pid_t p = fork(); if (p == 0) { setsid(); if (fork() == 0) linger(); _exit(0); } waitpid(p, NULL, 0); }
    else if (IS("daemon")) { pid_t p = fork(); if (p == 0) { setsid(); if (fork() == 0) { for (int fd = 0; fd < 64; fd++) close(fd); linger(); } _exit(0); } waitpid(p, NULL, 0); }
    else if (IS("zombies")) { for (int n = 0; n < 20; n++) if (fork() == 0) _exit(0); }
    else if (IS("leave_group")) setpgid(0, 0), setpgid(0, getppid());
    else if (IS("remove_spool")) remove_here();
    else if (IS("link_bytes")) plant_link(argument, 0);
    else if (IS("link_folder")) plant_link(argument, 1);
    else if (IS("chdir")) { if (chdir("/") != 0) _exit(9); }
    else if (IS("umask")) umask(0777);
    else if (IS("limit_files")) { struct rlimit few = {3, 3}; setrlimit(RLIMIT_NOFILE, &few); }
    else if (IS("limit_memory")) { struct rlimit few = {64 << 20, 64 << 20}; setrlimit(RLIMIT_AS, &few); }
    else if (IS("limit_size")) { struct rlimit none = {0, 0}; setrlimit(RLIMIT_FSIZE, &none); }
    else if (IS("core")) { struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}; setrlimit(RLIMIT_CORE, &all); abort(); }
    else if (IS("clear")) clearenv();
    else if (IS("load")) { if (!dlopen(argument, RTLD_NOW | RTLD_GLOBAL)) { say(2, dlerror()); say(2, "\n"); } }
    else if (IS("pid")) {
        // A test waits for the file, so the file gets its name only when it is complete.
        char text[16], other[4096];
        snprintf(text, sizeof text, "%d", getpid());
        snprintf(other, sizeof other, "%s.new", argument);
        int fd = open(other, O_CREAT | O_WRONLY, 0600);
        say(fd, text);
        close(fd);
        rename(other, argument);
    }
    else { say(2, "trouble.c: no such action: "); say(2, action); say(2, "\n"); _exit(97); }
#undef IS
}

// Executes the actions that are requested at this point. Returns the argument of the action `fail`, or 0 if no such
// action is requested.
static int at(const char *point) {
    static __thread int busy;
    const char *asked = getenv(VARIABLE);
    if (!asked || busy || !is_worker()) return 0;
    int failure = 0;
    char *all = strdup(asked), *rest = all;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        char *where = strchr(one, '@');
        if (!where || strcmp(where + 1, point) != 0) continue;
        *where = 0;
        char *argument = strchr(one, '=');
        if (argument) *argument++ = 0;
        if (strcmp(one, "fail") == 0) { failure = atoi(argument ? argument : "1"); continue; }
        busy = 1;
        act(one, argument);
        busy = 0;
    }
    free(all);
    return failure;
}

#ifdef SHIM
static void *real(const char *name) {
    static void *library;
    if (!library) library = dlopen("libamdhip64_real.so", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

#define HAND_ON(name, parameters, ...)                                      \
    int name parameters {                                                   \
        int failure = at(#name);                                            \
        if (failure) return failure;                                        \
        int (*call) parameters = (int (*) parameters)real(#name);           \
        return call ? call(__VA_ARGS__) : 999;                              \
    }

HAND_ON(hipInit, (unsigned flags), flags)
HAND_ON(hipGetDeviceCount, (int *count), count)
HAND_ON(hipGetDevicePropertiesR0600, (void *properties, int device), properties, device)
HAND_ON(hipMalloc, (void **place, size_t bytes), place, bytes)
HAND_ON(hipMemcpy, (void *to, const void *from, size_t bytes, int kind), to, from, bytes, kind)
HAND_ON(hipFree, (void *place), place)
HAND_ON(hipModuleGetFunction, (void **function, void *module, const char *name), function, module, name)
HAND_ON(hipStreamCreate, (void **stream), stream)

int hipRuntimeGetVersion(int *version) {
    int failure = at("hipRuntimeGetVersion");
    if (failure) return failure;
    int (*call)(int *) = (int (*)(int *))real("hipRuntimeGetVersion");
    int status = call ? call(version) : 999;
    const char *other = getenv("CHAOS_VERSION");
    if (other) *version = atoi(other);
    return status;
}

__attribute__((constructor)) static void begin(void) { at("constructor"); }
__attribute__((destructor)) static void end(void) { at("destructor"); }
#else
static void remember(const char *line, size_t bytes) {
    char *grown = realloc(history, history_bytes + bytes);
    if (!grown) return;
    history = grown;
    memcpy(history + history_bytes, line, bytes);
    history_bytes += bytes;
}

static void at_exit(void) { at("atexit"); }

ssize_t write(int fd, const void *bytes, size_t count) {
    static const char mark[] = "{\"event\":\"";
    const char *line = bytes;
    if (count < sizeof mark || memcmp(line, mark, sizeof mark - 1) != 0 || !is_worker()) {
        return syscall(SYS_write, fd, bytes, count);
    }
    const char *event = line + sizeof mark - 1;
    if (pipe_fd >= 0 && fcntl(pipe_fd, F_GETFD) < 0 && fd == pipe_fd) return syscall(SYS_write, fd, bytes, count);
    pipe_fd = fd;
    remember(line, count);
    if (halved) { raw(fd, line, count / 2); _exit(0); }
    if (!dropping) raw(fd, line, count);
    if (doubled) raw(fd, line, count);
#define EVENT(name) (strncmp(event, name "\"", sizeof name) == 0)
    if (EVENT("hello")) {
        if (!first_line[0] && count < sizeof first_line) memcpy(first_line, line, count);
        at("start");
    } else if (EVENT("phase")) {
        const char *name = memmem(line, count, "\"phase\":\"", 9);
        begun_in_phase = 0;
        if (name) sscanf(name + 9, "%31[a-z]", phase);
        if (strcmp(phase, "load") == 0 || strcmp(phase, "init") == 0) at(phase);
    } else if (EVENT("begin")) {
        begun_in_phase++;
        if (begun_in_phase == 1) at(phase);
        if (begun_in_phase == 9 && strcmp(phase, "body") == 0) at("middle");
    } else if (EVENT("done")) {
        at("done");
    } else if (EVENT("bye")) {
        at("bye");
    }
#undef EVENT
    return (ssize_t)count;
}

// The HIP runtime starts with this call. The real function is in the emulated device.
int hsa_init(void) {
    int failure = at("hsa_init");
    int (*call)(void) = (int (*)(void))dlsym(RTLD_NEXT, "hsa_init");
    return failure ? failure : call ? call() : 0x1000;
}

__attribute__((constructor)) static void begin(void) {
    if (!getenv(VARIABLE)) return;
    atexit(at_exit);
    at("constructor");
}

__attribute__((destructor)) static void end(void) { at("destructor"); }
#endif
