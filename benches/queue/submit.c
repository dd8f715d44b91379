/* submit MESSAGES HOSTS [--hash] [--rate N --times FILE]: writes messages into the spool that is the current folder.

   With a rate, it writes N messages a second, each with a notice to .scheduler.notify, until MESSAGES are written. FILE
   then gets three 64-bit numbers for each: its number, and the times in nanoseconds at which its control file got its
   name, and at which this file was removed. It ends when all are removed, or a minute after the last was written. */
#define _GNU_SOURCE
#include "files.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

static long total, removed;
static int64_t (*times)[3];

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Notes when control files are removed, until none is left. */
static void *watch(void *inotify) {
    static char events[1 << 16];
    while (removed < total) {
        ssize_t length = read(*(int *)inotify, events, sizeof events);
        must(length > 0, "inotify");
        int64_t now = nanoseconds();
        struct inotify_event *event;
        for (char *at = events; at < events + length; at += sizeof *event + event->len) {
            event = (struct inotify_event *)at;
            must(!(event->mask & IN_Q_OVERFLOW), "events of removals were lost");
            long index = event->len > 0 ? atol(event->name) - FIRST : -1;
            if (index < 0 || index >= total || times[index][2] != 0)
                continue;
            times[index][2] = now;
            __atomic_add_fetch(&removed, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static int notice_socket(void) {
    struct sockaddr_un address = {AF_UNIX, ".scheduler.notify"};
    int notices = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    must(connect(notices, (struct sockaddr *)&address, sizeof address) == 0, address.sun_path);
    return notices;
}

static void submit_at(double rate, long hosts, int is_hashed) {
    int inotify = inotify_init(), notices = notice_socket();
    char path[100], notice[100] = "NEW ";
    for (int letter = 0; letter < (is_hashed ? 26 : 1); letter++) {
        sprintf(path, is_hashed ? "transport/%c" : "transport", 'A' + letter);
        must(inotify_add_watch(inotify, path, IN_DELETE) >= 0, path);
    }
    pthread_t watcher;
    must(pthread_create(&watcher, NULL, watch, &inotify) == 0, "a thread");
    double start = seconds(CLOCK_MONOTONIC);
    for (long index = 0; index < total; index++) {
        double early = start + index / rate - seconds(CLOCK_MONOTONIC);
        if (early > 0)
            usleep(early * 1e6);
        times[index][0] = FIRST + index;
        write_message(FIRST + index, hosts, is_hashed);
        show_message(FIRST + index, is_hashed);
        times[index][1] = nanoseconds();
        name_in(path, "", FIRST + index, is_hashed, "");
        strcpy(notice + 4, path + 1);
        send(notices, notice, strlen(notice), 0);
    }
    double deadline = seconds(CLOCK_MONOTONIC) + 60;
    while (__atomic_load_n(&removed, __ATOMIC_RELAXED) < total && seconds(CLOCK_MONOTONIC) < deadline)
        usleep(10000);
}

int main(int argc, char **argv) {
    must(argc > 2, "submit MESSAGES HOSTS [--hash] [--rate N --times FILE]");
    long hosts = atol(argv[2]);
    double rate = 0;
    int is_hashed = 0;
    const char *path = NULL;
    total = atol(argv[1]);
    for (int i = 3; i < argc; i++) {
        is_hashed |= strcmp(argv[i], "--hash") == 0;
        if (strcmp(argv[i], "--rate") == 0)
            rate = atof(argv[++i]);
        else if (strcmp(argv[i], "--times") == 0)
            path = argv[++i];
    }
    make_folders(is_hashed);
    if (rate == 0) {
        for (long number = FIRST; number < FIRST + total; number++) {
            write_message(number, hosts, is_hashed);
            show_message(number, is_hashed);
        }
        return 0;
    }
    times = calloc(total, sizeof *times);
    submit_at(rate, hosts, is_hashed);
    FILE *file = fopen(path, "w");
    must(file != NULL && fwrite(times, sizeof *times, total, file) == (size_t)total && fclose(file) == 0, path);
    return 0;
}
