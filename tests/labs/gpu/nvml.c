/*
 * Stands in for libnvidia-ml.so.1. What it answers stands in a file beside it, <library>.script,
 * lines "key=value", read anew whenever it changes. Keys of GPU 3 begin with "3.", of its second
 * MIG instance with "3.mig.1.". "error.FUNCTION=15" and "3.error.FUNCTION=15" make a call fail,
 * "hang.FUNCTION=1" makes it sleep for ever, "cpu_us=50" makes each call burn time.
 * Xids stand in <library>.xids, one line "GPU XID [GPU instance]" each, told once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef void *device;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, TIMEOUT = 10, NO_DATA = 21, VERSION_MISMATCH = 25 };
enum { SLOTS = 8192, KEY = 96, VALUE = 160 };

static char keys[SLOTS][KEY], values[SLOTS][VALUE];
static int initialized;
static long xids_told;
static struct timespec read_at;

static const char *beside(const char *suffix) {
    static char path[PATH_MAX];
    Dl_info info;
    dladdr((void *)beside, &info);
    snprintf(path, sizeof path, "%s.%s", info.dli_fname, suffix);
    return path;
}

/* Where a key stands, or the free slot it would get. */
static u32 slot_of(const char *key) {
    u32 slot = 5381;
    for (const char *c = key; *c; c++) slot = slot * 33 + (unsigned char)*c;
    slot %= SLOTS;
    while (keys[slot][0] && strcmp(keys[slot], key)) slot = (slot + 1) % SLOTS;
    return slot;
}

static void refresh(void) {
    struct stat facts;
    char line[KEY + VALUE + 2];
    FILE *file;
    if (stat(beside("script"), &facts) != 0) return;
    if (facts.st_mtim.tv_sec == read_at.tv_sec && facts.st_mtim.tv_nsec == read_at.tv_nsec) return;
    read_at = facts.st_mtim;
    memset(keys, 0, sizeof keys);
    file = fopen(beside("script"), "r");
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, '=');
        u32 slot;
        if (!value || value - line >= KEY) continue;
        *value++ = 0;
        value[strcspn(value, "\n")] = 0;
        slot = slot_of(line);
        strcpy(keys[slot], line);
        strncpy(values[slot], value, VALUE - 1);
    }
    if (file) fclose(file);
}

static const char *find(const char *key) {
    u32 slot = slot_of(key);
    return keys[slot][0] ? values[slot] : NULL;
}

static int gpu_of(device d) { return (int)(((size_t)d - 0x10000) / 0x100); }
static int mig_of(device d) { return (int)(((size_t)d - 0x10000) % 0x100) - 1; }
static device handle(int gpu, int mig) { return (device)(size_t)(0x10000 + gpu * 0x100 + mig + 1); }

static const char *of(device d, const char *name) {
    char key[KEY];
    if (mig_of(d) < 0) snprintf(key, KEY, "%d.%s", gpu_of(d), name);
    else snprintf(key, KEY, "%d.mig.%d.%s", gpu_of(d), mig_of(d), name);
    return find(key);
}

static u64 number(device d, const char *name) {
    const char *value = of(d, name);
    return value ? strtoull(value, NULL, 0) : 0;
}

static void burn(long microseconds) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000
           < microseconds);
}

/* What a call does before it answers: fail, hang or go on. */
static int enter(const char *function, device d) {
    char key[KEY];
    const char *value;
    if (!initialized && strcmp(function, "nvmlInit_v2")) return UNINITIALIZED;
    if ((value = find("cpu_us"))) burn(atol(value));
    for (int whose = 0; whose < (d ? 2 : 1); whose++) {
        char prefix[16] = "";
        if (whose) snprintf(prefix, sizeof prefix, "%d.", gpu_of(d));
        snprintf(key, KEY, "%shang.%s", prefix, function);
        while (find(key)) { usleep(20000); refresh(); }
        snprintf(key, KEY, "%serror.%s", prefix, function);
        if ((value = find(key))) return atoi(value);
        snprintf(key, KEY, "%serror", prefix);
        if ((value = find(key))) return atoi(value);
    }
    return OK;
}

#define ENTER(d) do { int code = enter(__func__, d); if (code) return code; } while (0)
/* For what is called once a round or seldom: the file may have changed. */
#define ENTER_ANEW(d) do { refresh(); ENTER(d); } while (0)
#define NEED(d, name) do { if (!of(d, name)) return NOT_SUPPORTED; } while (0)

static int text(char *buffer, u32 size, const char *value) {
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return OK;
}

int nvmlInit_v2(void) { ENTER_ANEW(NULL); initialized = 1; return OK; }
int nvmlShutdown(void) { initialized = 0; return OK; }
int nvmlSystemGetDriverVersion(char *b, u32 n) { ENTER(NULL); return text(b, n, find("driver")); }
int nvmlSystemGetNVMLVersion(char *b, u32 n) { ENTER(NULL); return text(b, n, find("nvml")); }

int nvmlDeviceGetCount_v2(u32 *count) {
    ENTER(NULL);
    *count = find("count") ? (u32)atoi(find("count")) : 0;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, device *d) {
    *d = handle((int)index, -1);
    ENTER_ANEW(*d);
    return of(*d, "bus") ? OK : INVALID;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device *d) {
    ENTER_ANEW(NULL);
    for (int gpu = 0; gpu < atoi(find("count") ? find("count") : "0"); gpu++) {
        *d = handle(gpu, -1);
        if (of(*d, "bus") && !strcasecmp(of(*d, "bus"), bus)) { ENTER(*d); return OK; }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetIndex(device d, u32 *index) {
    ENTER(d);
    *index = of(d, "index") ? (u32)number(d, "index") : (u32)gpu_of(d);
    return OK;
}

int nvmlDeviceGetUUID(device d, char *b, u32 n) { ENTER(d); return text(b, n, of(d, "uuid")); }
int nvmlDeviceGetName(device d, char *b, u32 n) { ENTER(d); return text(b, n, of(d, "name")); }

#define U32(function, name) \
    int function(device d, u32 *value) { \
        ENTER(d); NEED(d, name); *value = (u32)number(d, name); return OK; }
#define U64(function, name) \
    int function(device d, u64 *value) { \
        ENTER(d); NEED(d, name); *value = number(d, name); return OK; }

U32(nvmlDeviceGetMinorNumber, "minor")
U32(nvmlDeviceGetPowerUsage, "power_mw")
U64(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
U64(nvmlDeviceGetCurrentClocksEventReasons, "throttle")
U64(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle")
U32(nvmlDeviceGetCurrPcieLinkGeneration, "gen")
U32(nvmlDeviceGetCurrPcieLinkWidth, "width")
U32(nvmlDeviceGetMaxPcieLinkGeneration, "gen_max")
U32(nvmlDeviceGetMaxPcieLinkWidth, "width_max")
U32(nvmlDeviceGetGpuInstanceId, "gi")
U32(nvmlDeviceGetComputeInstanceId, "ci")

struct pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(device d, struct pci *info) {
    ENTER(d);
    memset(info, 0, sizeof *info);
    return text(info->bus_id, sizeof info->bus_id, of(d, "bus"));
}

struct utilization { u32 gpu, memory; };
int nvmlDeviceGetUtilizationRates(device d, struct utilization *rates) {
    ENTER_ANEW(d);
    NEED(d, "util");
    if (number(d, "mig")) return NOT_SUPPORTED;
    rates->gpu = (u32)number(d, "util");
    rates->memory = (u32)number(d, "mem_util");
    return OK;
}

struct memory { u64 total, free, used; };
int nvmlDeviceGetMemoryInfo(device d, struct memory *memory) {
    ENTER(d);
    memory->total = number(d, "mem_total");
    memory->used = number(d, "mem_used") + number(d, "mem_reserved");
    memory->free = memory->total - memory->used;
    return OK;
}

struct memory_v2 { u32 version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(device d, struct memory_v2 *memory) {
    ENTER(d);
    if (memory->version != (sizeof *memory | 2u << 24)) return VERSION_MISMATCH;
    memory->total = number(d, "mem_total");
    memory->used = number(d, "mem_used");
    memory->reserved = number(d, "mem_reserved");
    memory->free = memory->total - memory->used - memory->reserved;
    return OK;
}

int nvmlDeviceGetClockInfo(device d, int domain, u32 *mhz) {
    ENTER(d);
    if (domain != 1 && domain != 2) return INVALID;
    *mhz = (u32)number(d, domain == 1 ? "sm_mhz" : "mem_mhz");
    return OK;
}

int nvmlDeviceGetTemperature(device d, int sensor, u32 *celsius) {
    ENTER(d);
    if (sensor) return INVALID;
    *celsius = (u32)number(d, "temp");
    return OK;
}

struct temperature { u32 version; int sensor, celsius; };
int nvmlDeviceGetTemperatureV(device d, struct temperature *temperature) {
    ENTER(d);
    if (temperature->version != (sizeof *temperature | 1u << 24)) return VERSION_MISMATCH;
    temperature->celsius = (int)number(d, "temp");
    return OK;
}

int nvmlDeviceGetTotalEccErrors(device d, int kind, int counter, u64 *count) {
    ENTER(d);
    NEED(d, "ecc");
    if (kind != 1 || counter != 0) return INVALID;
    *count = number(d, "ecc");
    return OK;
}

int nvmlDeviceGetRemappedRows(device d, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    ENTER(d);
    NEED(d, "remapped");
    if (number(d, "mig")) return NOT_SUPPORTED;
    *corrected = 1000;
    *uncorrected = (u32)number(d, "remapped");
    *pending = (u32)number(d, "remap_pending");
    *failed = 0;
    return OK;
}

struct process { u32 pid; u64 used; u32 gi, ci; };
static int processes(device d, u32 *count, struct process *infos) {
    const char *pids = of(d, "pids");
    u32 room = *count, found = 0;
    if (!pids) return NOT_SUPPORTED;
    for (const char *p = pids; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        if (found < room) {
            infos[found].pid = (u32)strtoul(p, NULL, 10);
            infos[found].used = 1 << 20;
            infos[found].gi = infos[found].ci = 0xFFFFFFFF;
        }
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device d, u32 *n, struct process *p) {
    ENTER(d); return processes(d, n, p); }
int nvmlDeviceGetComputeRunningProcesses_v2(device d, u32 *n, struct process *p) {
    ENTER(d); return processes(d, n, p); }

int nvmlDeviceGetMigMode(device d, u32 *now, u32 *pending) {
    ENTER_ANEW(d);
    NEED(d, "mig");
    *now = *pending = (u32)number(d, "mig");
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(device d, u32 *count) { ENTER(d); *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, u32 index, device *mig) {
    ENTER(d);
    *mig = handle(gpu_of(d), (int)index);
    return of(*mig, "gi") ? OK : NOT_FOUND;
}

int nvmlEventSetCreate(void **set) { ENTER(NULL); *set = (void *)1; return OK; }
int nvmlDeviceRegisterEvents(device d, u64 types, void *set) {
    ENTER(d);
    return types == 8 && set == (void *)1 ? OK : INVALID;
}

struct event { device d; u64 type, data; u32 gi, ci; };
int nvmlEventSetWait_v2(void *set, struct event *event, u32 timeout_ms) {
    FILE *file;
    int gpu, xid, gi, found = 0;
    char line[80];
    ENTER_ANEW(NULL);
    if (set != (void *)1 || timeout_ms) return INVALID;
    file = fopen(beside("xids"), "r");
    if (file && !fseek(file, xids_told, SEEK_SET) && fgets(line, sizeof line, file)) {
        found = sscanf(line, "%d %d %d", &gpu, &xid, &gi);
        xids_told = ftell(file);
    }
    if (file) fclose(file);
    if (found < 2) return TIMEOUT;
    event->d = handle(gpu, -1);
    event->type = 8;
    event->data = (u64)xid;
    event->gi = found == 3 ? (u32)gi : 0xFFFFFFFF;
    event->ci = 0xFFFFFFFF;
    return OK;
}

struct sample { device d; int gi; long number; };
static long samples;

struct metric { u32 id; int code; double value; char *names[3]; };
struct metrics { u32 version, count; struct sample *first, *second; struct metric metrics[333]; };
struct support { u32 version, is_supported; };

int nvmlGpmQueryDeviceSupport(device d, struct support *support) {
    ENTER(d);
    if (support->version != 1) return VERSION_MISMATCH;
    support->is_supported = (u32)number(d, "gpm");
    return OK;
}
int nvmlGpmSampleAlloc(struct sample **sample) {
    ENTER(NULL);
    *sample = calloc(1, sizeof **sample);
    return OK;
}
int nvmlGpmSampleGet(device d, struct sample *sample) {
    ENTER(d);
    if (number(d, "mig")) return NOT_SUPPORTED;
    sample->d = d;
    sample->gi = -1;
    sample->number = ++samples;
    return OK;
}
int nvmlGpmMigSampleGet(device d, u32 gi, struct sample *sample) {
    ENTER(d);
    sample->d = d;
    sample->gi = (int)gi;
    sample->number = ++samples;
    return OK;
}
/* Values are "gpm.ID" of the GPU, or "gi.GI.gpm.ID" of one of its GPU instances. */
int nvmlGpmMetricsGet(struct metrics *get) {
    struct sample *a = get->first, *b = get->second;
    ENTER(b->d);
    if (get->version != 1) return VERSION_MISMATCH;
    if (a->d != b->d || a->gi != b->gi || a->number >= b->number) return INVALID;
    for (u32 i = 0; i < get->count; i++) {
        char name[48];
        const char *value;
        if (b->gi < 0) snprintf(name, sizeof name, "gpm.%u", get->metrics[i].id);
        else snprintf(name, sizeof name, "gi.%d.gpm.%u", b->gi, get->metrics[i].id);
        value = of(b->d, name);
        get->metrics[i].code = value ? OK : NO_DATA;
        get->metrics[i].value = value ? atof(value) : 0.0;
    }
    return OK;
}
