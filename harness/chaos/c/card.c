// A libamdhip64 with simulated GPU cards. A process sees the card that ROCR_VISIBLE_DEVICES names, or the first card.
// Device memory is memory of the process, and the only kernel adds 7 to each number.
//
// CARD is the folder `card` next to the stack that contains this library. The file CARD/actions says what a card does
// to which trial, with one line `TRIAL ACTION` for each trial. The file CARD/broken-ADDRESS exists while a card is
// broken. The library appends each trial and each action to CARD/log.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, NO_DEVICE = 100, UNKNOWN = 999 };

static char card[4096];
static char trial[64];
static char action[64];
// Index of the card that this process uses.
static int number;
static const char *const addresses[] = {"0000:03:00.0", "0000:43:00.0"};
static const char *const uuids[] = {"GPU-000000000000000a", "GPU-000000000000000b"};

static char *in_card(const char *name) {
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", card, name);
    return path;
}

static void tell(const char *what) {
    char line[256];
    int length = snprintf(line, sizeof line, "%s %s\n", trial, what);
    int file = open(in_card("log"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (write(file, line, length) != length) abort();
    fsync(file);
    close(file);
}

static void put(const char *name, const char *text) {
    int file = open(in_card(name), O_WRONLY | O_TRUNC | O_CREAT, 0644);
    if (write(file, text, strlen(text)) < 0) abort();
    fsync(file);
    close(file);
}

// Returns the name of a file about the card of this process.
static const char *of_card(const char *what) {
    static char name[64];
    snprintf(name, sizeof name, "%s-%s", what, addresses[number]);
    return name;
}

static int is(const char *wanted) { return !strcmp(action, wanted); }

static void hang(void) {
    for (;;) pause();
}

// Applies the effect of a broken card to a call: the call hangs or returns NO_DEVICE. Returns OK for a card that works.
static int broken(void) {
    char how[16] = "";
    FILE *file = fopen(in_card(of_card("broken")), "r");
    if (!file) return OK;
    if (fscanf(file, "%15s", how) != 1) how[0] = 0;
    fclose(file);
    if (!access(in_card("kill-in-check"), F_OK) && !strcmp(trial, "check")) {
        unlink(in_card("kill-in-check"));
        put("wants", "killed");
        hang();
    }
    if (!strcmp(how, "lost")) return NO_DEVICE;
    hang();
    return OK;
}

// Locks the card, and logs if another process is using it. The lock ends with the process.
static void use(void) {
    int file = open(in_card(of_card("used")), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (flock(file, LOCK_EX | LOCK_NB)) tell("is-not-alone");
}

// Reads the name of the trial and the action of the card. Called once in each process.
static void begin(void) {
    Dl_info here;
    dladdr((void *)begin, &here);
    char path[4096];
    if (!realpath(here.dli_fname, path)) abort();
    snprintf(card, sizeof card, "%s/../card", dirname(dirname(path)));
    const char *name = getenv("CARD_TRIAL");
    snprintf(trial, sizeof trial, "%s", name ? name : "check");
    FILE *file = fopen(in_card("actions"), "r");
    char who[64], what[64];
    while (file && fscanf(file, "%63s %63s", who, what) == 2)
        if (!strcmp(who, trial)) strcpy(action, what);
    if (file) fclose(file);
    // A process that uses a GPU has mapped a node of its driver.
    int node = open("/dev/kfd", O_RDWR);
    if (node < 0 || mmap(0, 4096, PROT_READ, MAP_SHARED, node, 0) == MAP_FAILED) abort();
    close(node);
    const char *visible = getenv("ROCR_VISIBLE_DEVICES");
    number = visible && !strcmp(visible, uuids[1]);
    if (visible && strcmp(visible, uuids[number])) abort();
    use();
    tell(access(in_card(of_card("broken")), F_OK) ? "begins" : "begins-on-a-broken-card");
}

int hipInit(unsigned flags) {
    if (!card[0]) begin();
    return broken();
}

int hipRuntimeGetVersion(int *version) { *version = 70253211; return OK; }
int hipGetDeviceCount(int *count) { *count = 1; return OK; }

const char *hipGetErrorName(int status) {
    return status == OK ? "hipSuccess" : status == NO_DEVICE ? "hipErrorNoDevice" : "hipErrorUnknown";
}

int hipGetDevicePropertiesR0600(void *properties, int device) {
    strcpy((char *)properties, "A pretended card");
    strcpy((char *)properties + 1160, "gfx1151");
    return OK;
}

int hipDeviceGetPCIBusId(char *address, int bytes, int device) {
    snprintf(address, bytes, "%s", addresses[number]);
    return OK;
}

int hipMalloc(void **pointer, size_t bytes) { return (*pointer = calloc(1, bytes)) ? OK : UNKNOWN; }
int hipFree(void *pointer) { free(pointer); return OK; }
int hipMemset(void *to, int value, size_t bytes) { memset(to, value, bytes); return OK; }
int hipStreamCreateWithFlags(void **stream, unsigned flags) { return (*stream = malloc(1)) ? OK : UNKNOWN; }
int hipStreamDestroy(void *stream) { free(stream); return OK; }
int hipStreamSynchronize(void *stream) { return OK; }
int hipDeviceSynchronize(void) { return OK; }
int hipGetLastError(void) { return OK; }
int hipPeekAtLastError(void) { return OK; }

// Increments the number of memory errors that the card could not correct.
static void count(void) {
    char name[64];
    snprintf(name, sizeof name, "class/drm/card%d/device/ras/umc_err_count", number);
    int before = 0;
    FILE *file = fopen(in_card(name), "r");
    if (file && fscanf(file, "ue: %d", &before) != 1) before = 0;
    if (file) fclose(file);
    char text[64];
    snprintf(text, sizeof text, "ue: %d\nce: 0\n", before + 1);
    put(name, text);
}

static void once(const char *what) {
    // An action that ends the command happens only once for each trial. When the trial is repeated, it passes.
    char name[96];
    snprintf(name, sizeof name, "did-%s", trial);
    if (!access(in_card(name), F_OK)) return;
    put(name, "");
    tell(what);
    put("wants", what);
    hang();
}

// Copies the result to the host. The action of the card happens at the first such copy.
static int fate(void *to, const void *from, size_t bytes) {
    static int met;
    memcpy(to, from, bytes);
    if (met++) return OK;
    if (is("fails")) { tell("fails"); ((char *)to)[bytes / 2] ^= 1; }
    if (is("crashes")) { tell("crashes"); abort(); }
    if (is("hangs")) { tell("hangs"); hang(); }
    if (is("poisons")) { tell("poisons"); put(of_card("broken"), "hangs"); hang(); }
    if (is("loses")) { tell("loses"); put(of_card("broken"), "lost"); return UNKNOWN; }
    if (is("poisons-and-killed-in-check")) {
        tell("poisons");
        put(of_card("broken"), "hangs");
        put("kill-in-check", "");
        hang();
    }
    if (is("counts") || is("counts-and-fails")) {
        tell(action);
        count();
        if (is("counts-and-fails")) ((char *)to)[0] ^= 1;
    }
    if (is("cannot-be-killed") || is("holds-and-works")) {
        char pid[16];
        tell(action);
        if (is("cannot-be-killed")) put(of_card("broken"), "hangs");
        snprintf(pid, sizeof pid, "%d", getpid());
        put("hold.new", pid);
        char from[4200];
        strcpy(from, in_card("hold.new"));
        rename(from, in_card("hold"));
        hang();
    }
    if (is("killed") || is("reboots")) once(action);
    return OK;
}

int hipMemcpy(void *to, const void *from, size_t bytes, int kind) {
    int status = broken();
    if (status) return status;
    // hipMemcpyDeviceToHost.
    if (kind == 2) return fate(to, from, bytes);
    memcpy(to, from, bytes);
    return OK;
}

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    return hipMemcpy(to, from, bytes, kind);
}

int hipModuleLoadData(void **module, const void *image) { *module = (void *)image; return OK; }
int hipModuleGetFunction(void **function, void *module, const char *name) { *function = module; return OK; }
int hipModuleUnload(void *module) { return OK; }

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
    unsigned *out = *(unsigned **)parameters[0];
    const unsigned *in = *(const unsigned **)parameters[1];
    unsigned n = *(unsigned *)parameters[2];
    for (unsigned i = 0; i < n; i++) out[i] = in[i] + 7;
    return broken();
}

// A hipRTC that returns the same code for every kernel. It is part of the runtime, as in ROCm up to 6.x.
const char *hiprtcGetErrorString(int result) { return "HIPRTC_ERROR"; }
int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts, const char **names) {
    *program = malloc(1);
    return OK;
}
int hiprtcCompileProgram(void *program, int options, const char **words) { return OK; }
int hiprtcGetProgramLogSize(void *program, size_t *bytes) { *bytes = 1; return OK; }
int hiprtcGetProgramLog(void *program, char *log) { *log = 0; return OK; }
int hiprtcGetCodeSize(void *program, size_t *bytes) { *bytes = 4; return OK; }
int hiprtcGetCode(void *program, char *code) { memcpy(code, "code", 4); return OK; }
int hiprtcDestroyProgram(void **program) { free(*program); return OK; }
