/* build: fifo_buffers
 *
 * fifo_buffers DIRECTORY COUNT: opens that many FIFOs, and prints how many have a buffer of full size, and how many a
 * smaller one, which Linux gives to users who have too many.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int count = atoi(argv[argc - 1]), full = 0, small = 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/fifo%d", argv[1], i);
        int fd = mkfifo(name, 0600) < 0 ? -1 : open(name, O_RDWR | O_NONBLOCK);
        if (fd < 0) {
            perror(name);
            return 1;
        }
        unlink(name);
        if (fcntl(fd, F_GETPIPE_SZ) < 65536)
            small++;
        else
            full++;
    }
    printf("%d %d\n", full, small);
    return 0;
}
