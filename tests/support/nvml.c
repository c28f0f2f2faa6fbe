/* Stands in for NVIDIA's driver. What it answers stands in the file that STUB_VALUES names, and may change at any time:

     count 2
     temperature 45          of every GPU
     1.temperature 91        of GPU 1
     1.ecc_uncorrected error 15    the number of an NVML error
     init hang               until the file says otherwise

   Without a line for it, a GPU is one of two healthy ones. Structures are those of NVIDIA's nvml.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;
typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    int type, result;
    union { double d; unsigned int ui; unsigned long ul; unsigned long long ull; } value;
} field_t;
typedef struct { void *device; unsigned long long type, data; unsigned int instance, compute; } event_t;
typedef struct { unsigned int pid; unsigned long long memory; unsigned int instance, compute; } process_t;

static int gpus[64];
static int given_xids[64];

/* The text of a name's line, in `text`; 0: there is none. */
static int line_of(const char *name, char *text, size_t size) {
    const char *path = getenv("STUB_VALUES");
    char line[256];
    int found = 0;
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file == NULL) return 0;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *blank = strchr(line, ' ');
        if (blank == NULL) continue;
        *blank = 0;
        if (strcmp(line, name) == 0) {
            snprintf(text, size, "%s", blank + 1);
            text[strcspn(text, "\n")] = 0;
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static int index_of(const void *device) { return device == NULL ? -1 : (int)((const int *)device - gpus); }

/* Answers `name` of a GPU (-1: of the driver) with what the file says, or else with `usual`. */
static int answer(int gpu, const char *name, const char *usual, char *text, size_t size) {
    char own[64];
    for (;;) {
        snprintf(own, sizeof own, "%d.%s", gpu, name);
        if (!line_of(own, text, size) && !line_of(name, text, size)) snprintf(text, size, "%s", usual);
        if (strcmp(text, "hang") != 0) break;
        usleep(10000);
    }
    return strncmp(text, "error ", 6) == 0 ? atoi(text + 6) : 0;
}

static int number(const void *device, const char *name, unsigned long long usual, unsigned long long *found) {
    char text[128], otherwise[32];
    snprintf(otherwise, sizeof otherwise, "%llu", usual);
    int result = answer(index_of(device), name, otherwise, text, sizeof text);
    if (result == 0) *found = strtoull(text, NULL, 0);
    return result;
}

static int whole(const void *device, const char *name, unsigned int usual, unsigned int *found) {
    unsigned long long value = 0;
    int result = number(device, name, usual, &value);
    if (result == 0) *found = (unsigned int)value;
    return result;
}

static int first(const void *device) { return index_of(device) == 0; }

int nvmlInitWithFlags(unsigned int flags) {
    unsigned int ignored;
    (void)flags;
    return whole(NULL, "init", 0, &ignored);
}

int nvmlDeviceGetCount_v2(unsigned int *found) { return whole(NULL, "count", 2, found); }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    unsigned int count = 0, ignored;
    int result = nvmlDeviceGetCount_v2(&count);
    if (result != 0) return result;
    if (index >= count) return 2; /* NVML_ERROR_INVALID_ARGUMENT */
    *device = &gpus[index];
    return whole(*device, "handle", 0, &ignored);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (strcmp(uuid, "MIG-1") != 0) return 6; /* NVML_ERROR_NOT_FOUND */
    *device = &gpus[1];
    return 0;
}

int nvmlDeviceGetIndex(void *device, unsigned int *found) { return whole(device, "index", (unsigned)index_of(device), found); }

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned int length) {
    return answer(index_of(device), "uuid", first(device) ? "GPU-aaaa-0" : "GPU-bbbb-1", uuid, length);
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    return answer(index_of(device), "name", first(device) ? "Stub A" : "Stub B", name, length);
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_t *pci) {
    char usual[32];
    memset(pci, 0, sizeof *pci);
    snprintf(usual, sizeof usual, "00000000:%02X:00.0", 0x3b + index_of(device));
    return answer(index_of(device), "bus", usual, pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetUtilizationRates(void *device, utilization_t *rates) {
    rates->memory = 0;
    return whole(device, "utilization", first(device) ? 97 : 5, &rates->gpu);
}

int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = 80ull << 30;
    int result = number(device, "memory_used", (first(device) ? 70ull : 1ull) << 30, &memory->used);
    memory->free = memory->total - memory->used;
    return result;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *found) {
    (void)sensor;
    return whole(device, "temperature", 45, found);
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *found) { return whole(device, "power", 350500, found); }

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *found) { return whole(device, "power_limit", 700000, found); }

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *found) {
    return number(device, "throttle", 0, found);
}

int nvmlDeviceGetTotalEccErrors(void *device, int uncorrected, int aggregate, unsigned long long *found) {
    (void)aggregate;
    return number(device, uncorrected ? "ecc_uncorrected" : "ecc_corrected", 0, found);
}

int nvmlDeviceGetRemappedRows(void *device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending,
                              unsigned int *failed) {
    int result = whole(device, "rows_remapped", 0, uncorrected);
    *corrected = 0;
    if (result == 0) result = whole(device, "rows_pending", 0, pending);
    return result != 0 ? result : whole(device, "rows_failed", 0, failed);
}

int nvmlDeviceGetRetiredPagesPendingStatus(void *device, unsigned int *found) {
    return whole(device, "pages_pending", 0, found);
}

int nvmlDeviceGetFieldValues(void *device, int count, field_t *fields) {
    unsigned long long each = 0;
    int result = number(device, "nvlink_errors", 0, &each);
    for (int at = 0; at < count; at++) {
        fields[at].type = 3;
        fields[at].result = result;
        fields[at].value.ull = each;
    }
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_t *found) {
    unsigned int there = 0;
    int result = whole(device, "processes", 1, &there);
    if (result != 0) return result;
    if (there == 0 || *count < there) {
        *count = there;
        return there == 0 ? 0 : 7; /* NVML_ERROR_INSUFFICIENT_SIZE */
    }
    memset(found, 0, there * sizeof *found);
    *count = there;
    return 0;
}

int nvmlEventSetCreate(void **set) {
    unsigned int ignored;
    *set = given_xids;
    return whole(NULL, "events", 0, &ignored);
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    unsigned int ignored;
    (void)types, (void)set;
    return whole(device, "register", 0, &ignored);
}

/* Each Xid that the file names is told of once. */
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int limit_ms) {
    unsigned int count = 0;
    (void)set, (void)limit_ms;
    nvmlDeviceGetCount_v2(&count);
    for (unsigned int at = 0; at < count && at < 64; at++) {
        unsigned int xid = 0;
        if (whole(&gpus[at], "xid", 0, &xid) == 0 && xid != 0 && given_xids[at] != (int)xid) {
            given_xids[at] = (int)xid;
            memset(event, 0, sizeof *event);
            event->device = &gpus[at];
            event->type = 8;
            event->data = xid;
            return 0;
        }
    }
    return 10; /* NVML_ERROR_TIMEOUT */
}
