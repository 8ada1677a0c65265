/* The calls of the virtual device, each written as one line of a log beside run.json. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint8_t header[4096] __attribute__((aligned(4096)));
static FILE *log_file;
static uint32_t sites, modules;

uint32_t oomproof_interface(void) { return 1; }
int oomproof_attach(const char *run_json) {
    char path[4096];
    if (strstr(run_json, "refused")) return 1;
    snprintf(path, sizeof path, "%s.%d.log", run_json, (int)getpid());
    log_file = fopen(path, "w");
    setvbuf(log_file, NULL, _IOLBF, 0);
    fprintf(log_file, "attach\n");
    return 0;
}
int oomproof_restart(const char *run_json) {
    fprintf(log_file, "restart\n");
    return 0;
}
const char *oomproof_error(void) { return "the fake refuses"; }
void *oomproof_header(void) { return header; }
uint32_t oomproof_site(const char *file, uint32_t line, const char *function) {
    fprintf(log_file, "site %u %s:%u %s\n", ++sites, file, line, function);
    return sites;
}
uint32_t oomproof_module(const char *path, const char *kind) {
    fprintf(log_file, "module %u %s %s\n", ++modules, path[0] ? path : "-", kind);
    return modules;
}
void oomproof_phase(uint32_t phase, uint32_t step) {
    ((uint32_t *)(header + 64))[2] = phase;
    ((uint32_t *)(header + 64))[3] = step;
    fprintf(log_file, "phase %u %u\n", phase, step);
}
void oomproof_step(uint32_t step) { fprintf(log_file, "step %u\n", step); }
void oomproof_label(uint64_t n, const uint64_t *addresses, uint32_t role, const char *const *names) {
    for (uint64_t i = 0; i < n; i++) fprintf(log_file, "label %u %s %d\n", role, names[i], addresses[i] != 0);
}
void oomproof_rank(uint32_t rank, uint32_t world) { fprintf(log_file, "rank %u of %u\n", rank, world); }
int oomproof_agree(uint32_t topic, uint64_t moment, int wanted) { return wanted; }
void oomproof_note(const char *json) { fprintf(log_file, "note %s\n", json); }
void oomproof_ledger(void) { fprintf(log_file, "ledger\n"); }
void oomproof_close(void) { fprintf(log_file, "close\n"); }

/* For the scripts of the tests: sets a counter, reads a word, writes a line. */
void fake_counter(uint32_t index, uint64_t value) { ((uint64_t *)(header + 128))[index] = value; }
uint32_t fake_word(uint32_t index) { return ((uint32_t *)(header + 64))[index]; }
void fake_say(const char *text) { fprintf(log_file, "say %s\n", text); }
