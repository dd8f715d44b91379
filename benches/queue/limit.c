/* limit MESSAGES PROCESSES [--hash] [--maildir]: what the file system itself allows.

   In the current folder, makes the files of messages, then does to them what scheduler and agents must do to
   deliver each, and nothing else:

   scan    open, fstat, read, close the control file; stat the message file
   mark    open, read, two writes (lock, delivered), close the control file
   remove  unlink both

   With --maildir, mark also does what a delivery to one of 100 Maildirs does: read the message file, create a file
   in tmp, write and sync it, rename it into new, and sync that folder.

   PROCESSES share each step. Prints one line of JSON: microseconds and microseconds of processor time a message for
   each step, and messages a second for all of them, one after the other. */
#include "files.h"
#include <sys/resource.h>
#include <sys/wait.h>

#define HOSTS 100

static long total;
static int processes, is_hashed, is_maildir;

static void make(long number) {
    write_message(number, HOSTS, is_hashed);
    show_message(number, is_hashed);
}

static void scan(long number) {
    char path[100], data[4096];
    struct stat facts;
    name_in(path, "transport", number, is_hashed, "");
    int file = open(path, O_RDONLY);
    must(file >= 0 && fstat(file, &facts) == 0 && read(file, data, sizeof data) > 0 && close(file) == 0, path);
    name_in(path, "queue", number, is_hashed, "");
    must(stat(path, &facts) == 0, path);
}

static void deliver_to_maildir(long number) {
    char path[100], new_path[100], data[4096];
    name_in(path, "queue", number, is_hashed, "");
    int file = open(path, O_RDONLY);
    ssize_t length = read(file, data, sizeof data);
    must(file >= 0 && length > 0 && close(file) == 0, path);
    long user = number % HOSTS;
    sprintf(path, "maildir/%ld/tmp/%ld", user, number);
    sprintf(new_path, "maildir/%ld/new/%ld", user, number);
    file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    must(file >= 0 && write(file, data, length) == length && fsync(file) == 0 && close(file) == 0, path);
    must(rename(path, new_path) == 0, new_path);
    sprintf(path, "maildir/%ld/new", user);
    file = open(path, O_RDONLY | O_DIRECTORY);
    must(file >= 0 && fsync(file) == 0 && close(file) == 0, path);
}

static void make_maildirs(void) {
    static const char *const formats[] = {"maildir/%d", "maildir/%d/tmp", "maildir/%d/new"};
    char path[100];
    mkdir("maildir", 0755);
    for (int user = 0; user < HOSTS; user++)
        for (int i = 0; i < 3; i++) {
            sprintf(path, formats[i], user);
            must(mkdir(path, 0755) == 0, path);
        }
}

static void mark(long number) {
    char path[100], data[4096];
    name_in(path, "transport", number, is_hashed, "");
    int file = open(path, O_RDWR);
    must(file >= 0 && read(file, data, sizeof data) > 0, path);
    must(pwrite(file, "~  1234", 7, 100) == 7, path);
    if (is_maildir)
        deliver_to_maildir(number);
    must(pwrite(file, "+      ", 7, 100) == 7 && close(file) == 0, path);
}

static void take_out(long number) {
    char path[100];
    name_in(path, "transport", number, is_hashed, "");
    must(unlink(path) == 0, path);
    name_in(path, "queue", number, is_hashed, "");
    must(unlink(path) == 0, path);
}

static double processor_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

struct cost {
    double wall, processor;
};

static struct cost each(void (*step)(long)) {
    double start = seconds(CLOCK_MONOTONIC), used = processor_seconds();
    for (int process = 0; process < processes; process++)
        if (fork() == 0) {
            for (long number = process; number < total; number += processes)
                step(FIRST + number);
            _exit(0);
        }
    int status;
    while (wait(&status) > 0)
        must(status == 0, "a process failed");
    struct cost cost = {(seconds(CLOCK_MONOTONIC) - start) / total * 1e6, (processor_seconds() - used) / total * 1e6};
    return cost;
}

int main(int argc, char **argv) {
    must(argc > 2, "limit MESSAGES PROCESSES [--hash] [--maildir]");
    total = atol(argv[1]);
    processes = atoi(argv[2]);
    for (int i = 3; i < argc; i++) {
        is_hashed |= strcmp(argv[i], "--hash") == 0;
        is_maildir |= strcmp(argv[i], "--maildir") == 0;
    }
    make_folders(is_hashed);
    if (is_maildir)
        make_maildirs();
    each(make);
    sync();
    struct cost scanned = each(scan), marked = each(mark), removed = each(take_out);
    printf("{\"scan_us\": %.2f, \"mark_us\": %.2f, \"remove_us\": %.2f, \"messages_per_s\": %.0f, "
           "\"scan_cpu_us\": %.2f, \"mark_cpu_us\": %.2f, \"remove_cpu_us\": %.2f}\n",
           scanned.wall, marked.wall, removed.wall, 1e6 / (scanned.wall + marked.wall + removed.wall),
           scanned.processor, marked.processor, removed.processor);
    return 0;
}
