/* build: ipc_queue
 *
 * POSIX message queues: names that are no paths, messages in order of priority, limits of access, waiting.
 */
#include "step.h"
#include <mqueue.h>
#include <poll.h>

int main(void) {
    char name[64], text[128];
    unsigned priority = 0;
    snprintf(name, sizeof name, "/husk-queue-%d-%ld", getpid(), (long)time(NULL));
    struct mq_attr wish = {.mq_maxmsg = 4, .mq_msgsize = 64}, found;
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &wish);
    say("made %s", queue == (mqd_t)-1 ? errname(errno) : "yes");
    if (queue == (mqd_t)-1)
        return 1;
    STEP(mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &wish));
    STEP(mq_open("/husk-queue-missing", O_RDWR));
    STEP(mq_getattr(queue, &found));
    say("most %ld size %ld waiting %ld", found.mq_maxmsg, found.mq_msgsize, found.mq_curmsgs);
    STEP(mq_send(queue, "later", 6, 1));
    STEP(mq_send(queue, "first", 6, 9));
    STEP(mq_send(queue, text, 65, 1));
    STEP(mq_receive(queue, text, 10, &priority));
    STEP(mq_receive(queue, text, sizeof text, &priority));
    say("%s of priority %u", text, priority);
    STEP(mq_receive(queue, text, sizeof text, &priority));
    say("%s of priority %u", text, priority);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    STEP(mq_timedreceive(queue, text, sizeof text, NULL, &soon));
    struct pollfd ready = {.fd = queue, .events = POLLIN | POLLOUT};
    STEP(poll(&ready, 1, 0));
    say("ready for writing only %d", ready.revents == POLLOUT);
    pid_t child = MUST(fork());
    if (child == 0) {
        mqd_t other = mq_open(name, O_WRONLY);
        mq_send(other, "from a child", 13, 0);
        _exit(0);
    }
    STEP(mq_receive(queue, text, sizeof text, NULL));
    say("%s", text);
    MUST(waitpid(child, NULL, 0));
    STEP(mq_send(mq_open(name, O_RDONLY), "x", 1, 0)); /* not opened for that */
    struct stat st;
    STEP(fstat(queue, &st));
    say("a file %d mode %o", S_ISREG(st.st_mode), st.st_mode & 0777);
    STEP(mq_unlink(name));
    STEP(mq_unlink(name));
    STEP(mq_send(queue, "still there", 12, 0));
    STEP(mq_close(queue));
    return 0;
}
