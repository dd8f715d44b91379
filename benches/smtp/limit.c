/* limit [MESSAGES [PROCESSES]]: what the file system itself allows.

   In the current folder, does to files what server, router, scheduler and agent must do for each message that
   comes by SMTP and leaves by SMTP, with all of their syncs, and nothing else:

   store   create a file in public/, write 2 kB, sync it; rename it into router/, sync the folder
   route   open and read it; create a hidden control file, write 700 bytes, sync it and its folder; rename the message into
           queue/, sync the folder; show the control file, sync its folder
   scan    open, read, close the control file; stat the message file
   deliver open and read the control file, lock and mark it; open and read the message file
   remove  unlink both

   PROCESSES share each step. Prints microseconds a message for each step, and messages a second for all, one after the
   other. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLDERS 4
static const char *folders[FOLDERS] = {"public", "router", "transport", "queue"};
static int total, processes;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void must(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static const char *path(int slot, const char *format, int number) {
    static char paths[2][64];
    snprintf(paths[slot], sizeof paths[slot], format, number);
    return paths[slot];
}

static void create(const char *name, size_t size) {
    static const char data[2000];
    int file = open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    must(file >= 0 && write(file, data, size) == (ssize_t)size && fsync(file) == 0, name);
    close(file);
}

static void sync_folder(const char *name) {
    int folder = open(name, O_RDONLY | O_DIRECTORY);
    must(folder >= 0 && fsync(folder) == 0, name);
    close(folder);
}

static void move(const char *from, const char *to, int number) {
    must(rename(path(0, from, number), path(1, to, number)) == 0, from);
}

static int read_file(const char *name, int flags) {
    char data[4096];
    int file = open(name, flags);
    must(file >= 0 && read(file, data, sizeof data) > 0, name);
    return file;
}

static void store(int number) {
    create(path(0, "public/%d", number), 2000);
    move("public/%d", "router/%d", number);
    sync_folder("router");
}

static void route(int number) {
    close(read_file(path(0, "router/%d", number), O_RDONLY));
    create(path(0, "transport/.%d", number), 700);
    sync_folder("transport");
    move("router/%d", "queue/%d", number);
    sync_folder("queue");
    move("transport/.%d", "transport/%d", number);
    sync_folder("transport");
}

static void scan(int number) {
    struct stat about;
    close(read_file(path(0, "transport/%d", number), O_RDONLY));
    must(stat(path(0, "queue/%d", number), &about) == 0, "stat");
}

static void deliver(int number) {
    int file = read_file(path(0, "transport/%d", number), O_RDWR);
    must(pwrite(file, "~  1234", 7, 100) == 7 && pwrite(file, "+      ", 7, 100) == 7, "mark");
    close(read_file(path(0, "queue/%d", number), O_RDONLY));
    close(file);
}

static void take_out(int number) {
    unlink(path(0, "transport/%d", number));
    unlink(path(0, "queue/%d", number));
}

static double each(void (*step)(int)) {
    double start = now();
    for (int process = 0; process < processes; process++)
        if (fork() == 0) {
            for (int number = process; number < total; number += processes) step(number);
            _exit(0);
        }
    int status;
    while (wait(&status) > 0) must(status == 0, "a process");
    return (now() - start) / total * 1e6;
}

int main(int argc, char **argv) {
    total = argc > 1 ? atoi(argv[1]) : 5000;
    processes = argc > 2 ? atoi(argv[2]) : 20;
    for (int at = 0; at < FOLDERS; at++) mkdir(folders[at], 0755);
    double a = each(store), b = each(route), c = each(scan), d = each(deliver), e = each(take_out);
    printf("{\"messages\": %d, \"processes\": %d, \"store_us\": %.1f, \"route_us\": %.1f, \"scan_us\": %.1f, "
           "\"deliver_us\": %.1f, \"remove_us\": %.1f, \"msgs_per_s\": %.0f}\n",
           total, processes, a, b, c, d, e, 1e6 / (a + b + c + d + e));
    for (int at = 0; at < FOLDERS; at++) rmdir(folders[at]);
    return 0;
}
