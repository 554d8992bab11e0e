/* Preloaded: the time of day, as Python sees it, is off by the seconds in the file $CLOCK_OFFSET.

   Only callers in the Python executable or its library are answered so: what is written in Python
   is what is tested. Libraries would also need every wait until a time of day translated. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void) {
    char text[32] = {0};
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 ? atol(text) : 0;
}

static int called_by_python(void *caller) {
    Dl_info where;
    if (!dladdr(caller, &where) || !where.dli_fname) return 0;
    const char *slash = strrchr(where.dli_fname, '/');
    const char *name = slash ? slash + 1 : where.dli_fname;
    return !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && called_by_python(__builtin_return_address(0)))
        now->tv_sec += offset_s();
    return failed;
}
