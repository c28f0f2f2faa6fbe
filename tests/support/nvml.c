/* Stands in for NVIDIA's driver: two GPUs, as the environment says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;

static int gpus[64];

static int is(const char *name, const char *value) {
    const char *said = getenv(name);
    return said != NULL && strcmp(said, value) == 0;
}

static void may_hang(const char *where) {
    /* Until the file that the environment names is there. */
    const char *release = getenv("STUB_RELEASE");
    if (!is("STUB_HANGS", where)) return;
    while (release == NULL || access(release, F_OK) != 0) usleep(10000);
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    may_hang("init");
    return is("STUB_FAILS", "init") ? 9 : 0; /* NVML_ERROR_DRIVER_NOT_LOADED */
}

static unsigned int count(void) {
    const char *said = getenv("STUB_COUNT");
    return said != NULL ? (unsigned int)atoi(said) : 2;
}

int nvmlDeviceGetCount_v2(unsigned int *found) { *found = count(); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    if (index >= count()) return 2;
    if (index == 1 && is("STUB_FAILS", "lost")) return 15; /* NVML_ERROR_GPU_IS_LOST */
    *device = &gpus[index];
    return 0;
}

static int index_of(void *device) { return (int)((int *)device - gpus); }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (strcmp(uuid, "MIG-1") != 0) return 6;
    *device = &gpus[1];
    return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
    strncpy(uuid, index_of(device) == 0 ? "GPU-aaaa-0" : "GPU-bbbb-1", length);
    return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    strncpy(name, index_of(device) == 0 ? "Stub A" : "Stub B", length);
    return 0;
}

int nvmlDeviceGetUtilizationRates(void *device, utilization_t *rates) {
    const char *release = getenv("STUB_RELEASE");
    /* After the first answer, if told so. */
    static int asked = 0;
    if (asked++ >= 2 && release != NULL) may_hang("later");
    may_hang("load");
    if (is("STUB_FAILS", "load")) return 3; /* NVML_ERROR_NOT_SUPPORTED */
    rates->gpu = index_of(device) == 0 ? 97 : 5;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = 80ull << 30;
    memory->used = (index_of(device) == 0 ? 70ull : 1ull) << 30;
    memory->free = memory->total - memory->used;
    return 0;
}
