// Keeps a process from ending, whatever signal it receives. This simulates a process in an uninterruptible wait of a
// driver: with PTRACE_O_TRACEEXIT, the process stops at its end until its tracer ends. The first argument names a file
// that will contain the id of the process. This program ends when its standard input is closed.
#include <stdio.h>
#include <sys/ptrace.h>
#include <unistd.h>
#include <poll.h>

int main(int count, char **words) {
    int pid = 0;
    while (!pid) {
        struct pollfd input = {0, POLLIN, 0};
        if (poll(&input, 1, 5) > 0) return 0;
        FILE *file = fopen(words[1], "r");
        if (!file) continue;
        if (fscanf(file, "%d", &pid) != 1) pid = 0;
        fclose(file);
    }
    if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT)) {
        perror("ptrace");
        return 1;
    }
    char byte;
    return read(0, &byte, 1) != 0;
}
