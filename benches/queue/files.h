/* The files of messages, as a router writes them. */
#ifndef FILES_H
#define FILES_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The name of the first message. The next ones have the next numbers. */
#define FIRST 100000L

static inline void must(int ok, const char *what) {
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static inline double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Writes the path of a file below its folder: in a hashed spool it is in one of the folders A to Z. */
static inline void name_in(char *path, const char *folder, long number, int is_hashed, const char *prefix) {
    if (is_hashed)
        sprintf(path, "%s/%c/%s%ld", folder, (int)('A' + number % 26), prefix, number);
    else
        sprintf(path, "%s/%s%ld", folder, prefix, number);
}

static inline void write_file(const char *path, const char *text, size_t length) {
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    must(file >= 0 && write(file, text, length) == (ssize_t)length && close(file) == 0, path);
}

/* Writes both files of a message for one recipient, the control file under a hidden name. */
static inline void write_message(long number, long hosts, int is_hashed) {
    static char body[710], envelope[2000], control[2000], path[100];
    if (body[0] == 0) {
        memset(body, 'x', sizeof body);
        for (size_t end = 70; end < sizeof body; end += 71)
            body[end] = '\n';
    }
    long host = number % hosts;
    int offset = sprintf(envelope,
                         "rcvdfrom STDIN (\"??\"@bench)\nfrom sender@a.test\nto user%ld@host%ld.test\nenv-end\n"
                         "From: sender@a.test\nTo: user%ld@host%ld.test\nSubject: bench %ld\n\n",
                         host, host, host, host, number);
    memcpy(envelope + offset, body, sizeof body);
    name_in(path, "queue", number, is_hashed, "");
    write_file(path, envelope, offset + sizeof body);
    int length = sprintf(control,
                         "@ 0x00000007\ni %ld\no %d\nl <%ld@a.test>\ne sender@a.test\n"
                         "s local sender@a.test sender@a.test 1\n"
                         "r           bench host%ld.test user%ld@host%ld.test 65534\nm\n"
                         "Received: (\"??\"@bench) by a.test id SXXXXXXXX;\n\tSat, 21 Nov 2026 10:00:00 +0000\n"
                         "From:\tsender@a.test\nTo:\tuser%ld@host%ld.test\nSubject: bench %ld\n"
                         "Message-Id: <%ld@a.test>\nDate:\tSat, 21 Nov 2026 10:00:00 +0000\n\n",
                         number, offset, number, host, host, host, host, host, number, number);
    name_in(path, "transport", number, is_hashed, ".");
    write_file(path, control, length);
}

/* Gives a control file its name. */
static inline void show_message(long number, int is_hashed) {
    char hidden[100], path[100];
    name_in(hidden, "transport", number, is_hashed, ".");
    name_in(path, "transport", number, is_hashed, "");
    must(rename(hidden, path) == 0, path);
}

/* Makes the folders of messages in the current folder. */
static inline void make_folders(int is_hashed) {
    char path[20];
    mkdir("queue", 0755);
    mkdir("transport", 0755);
    for (int letter = 0; is_hashed && letter < 26; letter++) {
        sprintf(path, "queue/%c", 'A' + letter);
        mkdir(path, 0755);
        sprintf(path, "transport/%c", 'A' + letter);
        mkdir(path, 0755);
    }
}

#endif
