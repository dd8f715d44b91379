/* agent CHANNEL: the cheapest transport agent that keeps the protocol.

   It locks each recipient of its job, marks it as delivered, and says so. Environment:

   AGENT_DELAY   time that each recipient takes, in microseconds
   AGENT_COUNT   a file of 8 bytes; the number of deliveries, increased by all agents
   AGENT_TIMES   a folder; the agent writes a file there with three 64-bit numbers for each job: the number of the
                 message, and the times in nanoseconds at which it got the job and has answered */
#include "files.h"
#include <stdint.h>
#include <strings.h>
#include <sys/mman.h>

static char line[10000], contents[1 << 20], lock[16];
static const char *channel;
static uint64_t unshared, *count = &unshared;
static useconds_t delay;

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void open_count(void) {
    const char *path = getenv("AGENT_COUNT");
    if (path == NULL)
        return;
    int file = open(path, O_RDWR);
    must(file >= 0, path);
    count = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(count != MAP_FAILED, path);
}

static FILE *open_times(void) {
    char path[1000];
    const char *folder = getenv("AGENT_TIMES");
    if (folder == NULL)
        return NULL;
    snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
    FILE *times = fopen(path, "a");
    must(times != NULL, path);
    return times;
}

/* Returns true if an `r` line is for our channel and this host. */
static int is_ours(const char *recipient, const char *host) {
    size_t length = strlen(channel);
    if (recipient[0] != 'r' || recipient[1] != ' ' || strncmp(recipient + 12, channel, length) || recipient[12 + length] != ' ')
        return 0;
    const char *of = recipient + 12 + length + 1;
    length = strcspn(of, " ");
    return host == NULL || (strlen(host) == length && !strncasecmp(host, of, length));
}

/* Delivers a message. Returns the number of its recipients that were ours. */
static int deliver(int file, long number, const char *host) {
    int done = 0;
    ssize_t length = read(file, contents, sizeof contents - 1);
    contents[length > 0 ? length : 0] = 0;
    for (char *at = contents; at && *at && *at != 'm';) {
        if (is_ours(at, host)) {
            off_t offset = at - contents;
            if (delay)
                usleep(delay);
            must(pwrite(file, lock, 7, offset + 1) == 7 && pwrite(file, "+      ", 7, offset + 1) == 7, "a tag");
            printf("%ld/%ld\t\tok3 \n", number, (long)offset);
            __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
            done++;
        }
        char *end = strchr(at, '\n');
        at = end ? end + 1 : NULL;
    }
    return done;
}

int main(int argc, char **argv) {
    must(argc == 2, "agent CHANNEL");
    channel = argv[1];
    sprintf(lock, "~%6d", (int)getpid());
    if (getenv("AGENT_DELAY"))
        delay = atoi(getenv("AGENT_DELAY"));
    open_count();
    FILE *times = open_times();
    for (;;) {
        printf("#hungry\n");
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL || line[0] == '\n')
            return 0;
        int64_t times_of_job[3] = {0, times ? nanoseconds() : 0, 0};
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, "#idle") == 0)
            continue;
        char *host = strchr(line, '\t'), *base = strrchr(line, '/');
        if (host)
            *host++ = 0;
        long number = atol(base ? base + 1 : line);
        int file = open(line, O_RDWR);
        if (file < 0 || deliver(file, number, host) == 0)
            printf("#resync %s\n", line);
        if (file >= 0)
            close(file);
        if (times) {
            times_of_job[0] = number;
            times_of_job[2] = nanoseconds();
            fwrite(times_of_job, sizeof times_of_job, 1, times);
            fflush(times);
        }
    }
}
