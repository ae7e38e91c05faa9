// Starts a program under a seccomp filter that makes one system call fail: `forbid CALL PROGRAM ARGUMENT...`. The
// children of the program inherit the filter.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    long number;
} calls[] = {
    {"getcwd", SYS_getcwd},
    {"getdents64", SYS_getdents64},
    {"prctl", SYS_prctl},
    {"pidfd_open", SYS_pidfd_open},
};

int main(int count, char **words) {
    long number = -1;
    for (size_t n = 0; count > 2 && n < sizeof calls / sizeof *calls; n++)
        if (strcmp(calls[n].name, words[1]) == 0) number = calls[n].number;
    if (number < 0) return 2;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        perror("seccomp");
        return 3;
    }
    execvp(words[2], words + 2);
    perror(words[2]);
    return 127;
}
