// Keeps a process from ending whatever signal it gets, as one does that waits for a driver: whoever is traced so stops on
// its way out until its tracer lets it go. Waits for the file named first, which holds the process's number, and lets go
// when its standard input ends.
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
