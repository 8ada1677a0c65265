/* Loaded before all other libraries, it makes the device slow: while it lags, no event has happened yet. */
#define _GNU_SOURCE
#include <dlfcn.h>

static int lags;

void oomproof_lag(int does_lag) { lags = does_lag; }

int cudaEventQuery(void *event) {
    static int (*query)(void *);
    if (!query) query = (int (*)(void *))dlsym(RTLD_NEXT, "cudaEventQuery");
    if (!query) query = (int (*)(void *))dlsym(RTLD_DEFAULT, "cudaEventQuery_real");
    const int not_ready = 600;
    return lags || !query ? not_ready : query(event);
}
