/* compat/probe: checks of ioctl, command by command: descriptors, files, terminals, sockets and interfaces. */
#include "probe.h"

#include <linux/ethtool.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

/* -- any descriptor -- */

CHECK(ioctl, "cmd=FIONREAD: of a pipe")
{
    int ends[2], count = -1;
    probe_pipe(ends);
    NEED(write(ends[1], "hello", 5) == 5, "write");
    MUST(CALL(ioctl, ends[0], FIONREAD, &count));
    EFFECT(count == 5);
}

CHECK(ioctl, "cmd=FIONREAD: of a file")
{
    int count = -1;
    MUST(CALL(ioctl, probe_file("f", "hello"), FIONREAD, &count));
    EFFECT(count == 5);
}

CHECK(ioctl, "cmd=FIONBIO")
{
    int ends[2], on = 1;
    char one;
    probe_pipe(ends);
    MUST(CALL(ioctl, ends[0], FIONBIO, &on));
    EFFECT(read(ends[0], &one, 1) == -1 && errno == EAGAIN);
}

CHECK(ioctl, "cmd=FIOCLEX")
{
    int fd = dup(probe_memfd(0));
    MUST(CALL(ioctl, fd, FIOCLEX, 0));
    EFFECT(fcntl(fd, F_GETFD) == FD_CLOEXEC);
}

CHECK(ioctl, "cmd=FIONCLEX")
{
    int fd = probe_memfd(0);
    MUST(CALL(ioctl, fd, FIONCLEX, 0));
    EFFECT(fcntl(fd, F_GETFD) == 0);
}

CHECK(ioctl, "cmd=FIOASYNC")
{
    int ends[2], on = 1;
    probe_pipe(ends);
    MUST(CALL(ioctl, ends[0], FIOASYNC, &on));
    EFFECT(fcntl(ends[0], F_GETFL) & O_ASYNC);
}

CHECK(ioctl, "cmd=FIOQSIZE")
{
    int64_t size = -1;
    MUST(CALL(ioctl, probe_file("f", "hello"), FIOQSIZE, &size));
    EFFECT(size >= 0);
}

CHECK(ioctl, "an unknown command is ENOTTY")
{
    ANSWERS(CALL(ioctl, probe_file("f", ""), 0x12345678, 0), ENOTTY);
}

CHECK(ioctl, "a descriptor that is not open is EBADF")
{
    ANSWERS(CALL(ioctl, 777, FIONREAD, 0), EBADF);
}

/* -- files -- */

CHECK(ioctl, "cmd=FIGETBSZ")
{
    int size = 0;
    MUST(CALL(ioctl, probe_file("f", ""), FIGETBSZ, &size));
    EFFECT(size >= 512);
}

CHECK(ioctl, "cmd=FICLONE: a copy that shares, or the file system cannot")
{
    int from = probe_file("f", "hello"), to = probe_file("g", "");
    MUST_OR(CALL(ioctl, to, FICLONE, from), EOPNOTSUPP, ENOTTY, EINVAL);
    EFFECT(probe_holds("g", "hello"));
}

CHECK(ioctl, "cmd=FICLONERANGE: a copy that shares, or the file system cannot")
{
    int from = probe_file("f", "hello"), to = probe_file("g", "");
    struct file_clone_range range = {.src_fd = from};
    MUST_OR(CALL(ioctl, to, FICLONERANGE, &range), EOPNOTSUPP, ENOTTY, EINVAL);
    EFFECT(probe_holds("g", "hello"));
}

CHECK(ioctl, "cmd=FIDEDUPERANGE: asked, or the file system cannot")
{
    int from = probe_file("f", "hello"), to = probe_file("g", "hello");
    struct { struct file_dedupe_range head; struct file_dedupe_range_info to; } ask = {
        .head = {.src_length = 5, .dest_count = 1}, .to = {.dest_fd = to}};
    MUST_OR(CALL(ioctl, from, FIDEDUPERANGE, &ask), EOPNOTSUPP, ENOTTY, EINVAL);
    EFFECT(probe_holds("g", "hello"));
}

CHECK(ioctl, "cmd=FIEMAP: where a file lies, or the file system does not tell")
{
    struct { struct fiemap head; struct fiemap_extent extents[4]; } map = {
        .head = {.fm_length = ~0UL, .fm_flags = FIEMAP_FLAG_SYNC, .fm_extent_count = 4}};
    MUST_OR(CALL(ioctl, probe_file("f", "hello"), FS_IOC_FIEMAP, &map), EOPNOTSUPP, ENOTTY);
    EFFECT(map.head.fm_mapped_extents <= 4);
}

CHECK(ioctl, "cmd=FS_IOC_GETFLAGS: or the file system has none")
{
    int flags = -1;
    MUST_OR(CALL(ioctl, probe_file("f", ""), FS_IOC_GETFLAGS, &flags), ENOTTY, EOPNOTSUPP);
    EFFECT(flags != -1);
}

CHECK(ioctl, "cmd=FS_IOC_SETFLAGS: what FS_IOC_GETFLAGS told, or the file system has none")
{
    int fd = probe_file("f", ""), flags = 0;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        flags = 0;
    MUST_OR(CALL(ioctl, fd, FS_IOC_SETFLAGS, &flags), EOPNOTSUPP);
}

CHECK(ioctl, "cmd=FS_IOC_GETVERSION: or the file system has none")
{
    int version = -1;
    MUST_OR(CALL(ioctl, probe_file("f", ""), FS_IOC_GETVERSION, &version), ENOTTY, EOPNOTSUPP);
}

CHECK(ioctl, "cmd=F2FS_IOC_GET_FEATURES: only of that file system")
{
    unsigned features = 0;
    MUST_OR(CALL(ioctl, probe_file("f", ""), 0x8004f50c, &features), ENOTTY, EOPNOTSUPP);
}

/* -- terminals -- */

static int terminal(void)
{
    int master, slave;
    probe_terminal(&master, &slave);
    return slave;
}

static int master_side(void)
{
    int master, slave;
    probe_terminal(&master, &slave);
    return master;
}

CHECK(ioctl, "cmd=TCGETS")
{
    struct termios state;
    memset(&state, 0xff, sizeof state);
    MUST(CALL(ioctl, terminal(), TCGETS, &state));
    EFFECT((state.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO) && (state.c_cflag & CSIZE) == CS8);
}

CHECK(ioctl, "cmd=TCGETS: a file is ENOTTY")
{
    char state[64];
    ANSWERS(CALL(ioctl, probe_memfd(0), TCGETS, state), ENOTTY);
}

struct kernel_termios {
    unsigned input, output, control, local;
    unsigned char line, characters[19];
};

static void sets_echo(int command)
{
    int fd = terminal();
    struct kernel_termios state, after;
    NEED(ioctl(fd, TCGETS, &state) == 0, "TCGETS");
    state.local &= ~(unsigned)ECHO;
    MUST(CALL(ioctl, fd, command, &state));
    EFFECT(ioctl(fd, TCGETS, &after) == 0 && !(after.local & ECHO));
}

CHECK(ioctl, "cmd=TCSETS")
{
    sets_echo(TCSETS);
}
CHECK(ioctl, "cmd=TCSETSW")
{
    sets_echo(TCSETSW);
}
CHECK(ioctl, "cmd=TCSETSF")
{
    sets_echo(TCSETSF);
}

CHECK(ioctl, "cmd=TCGETS2")
{
    struct { struct kernel_termios state; unsigned in, out; } state = {{0}, 0, 0};
    MUST(CALL(ioctl, terminal(), 0x802c542a, &state));
    EFFECT(state.out > 0 && (state.state.local & ECHO));
}

static void sets_echo_2(int command)
{
    int fd = terminal();
    struct { struct kernel_termios state; unsigned in, out; } state = {{0}, 0, 0};
    struct kernel_termios after;
    NEED(ioctl(fd, 0x802c542a, &state) == 0, "TCGETS2");
    state.state.local &= ~(unsigned)ECHO;
    MUST(CALL(ioctl, fd, command, &state));
    EFFECT(ioctl(fd, TCGETS, &after) == 0 && !(after.local & ECHO));
}

CHECK(ioctl, "cmd=TCSETS2")
{
    sets_echo_2(0x402c542b);
}
CHECK(ioctl, "cmd=TCSETSW2")
{
    sets_echo_2(0x402c542c);
}
CHECK(ioctl, "cmd=TCSETSF2")
{
    sets_echo_2(0x402c542d);
}

static void old_state(int command)
{
    struct { unsigned short flags[4]; unsigned char rest[16]; } state = {{0}, {0}};
    int fd = terminal();
    NEED(command == TCGETA || ioctl(fd, TCGETA, &state) == 0, "TCGETA");
    MUST(CALL(ioctl, fd, command, &state));
    EFFECT(state.flags[3] & ECHO);
}

CHECK(ioctl, "cmd=TCGETA")
{
    old_state(TCGETA);
}
CHECK(ioctl, "cmd=TCSETA")
{
    old_state(TCSETA);
}
CHECK(ioctl, "cmd=TCSETAW")
{
    old_state(TCSETAW);
}
CHECK(ioctl, "cmd=TCSETAF")
{
    old_state(TCSETAF);
}

CHECK(ioctl, "cmd=TCSBRK")
{
    MUST(CALL(ioctl, terminal(), TCSBRK, 1)); /* drains only */
}
CHECK(ioctl, "cmd=TCSBRKP")
{
    MUST(CALL(ioctl, terminal(), TCSBRKP, 0));
}
CHECK(ioctl, "cmd=TIOCSBRK")
{
    MUST(CALL(ioctl, terminal(), TIOCSBRK, 0));
}
CHECK(ioctl, "cmd=TIOCCBRK")
{
    MUST(CALL(ioctl, terminal(), TIOCCBRK, 0));
}

CHECK(ioctl, "cmd=TCXONC: stops and starts the output")
{
    int fd = terminal();
    MUST(CALL(ioctl, fd, TCXONC, TCOOFF));
    MUST(CALL(ioctl, fd, TCXONC, TCOON));
}

CHECK(ioctl, "cmd=TCFLSH: what was typed is gone")
{
    int master, slave, count = -1;
    probe_terminal(&master, &slave);
    NEED(write(master, "line\n", 5) == 5, "write");
    MUST(CALL(ioctl, slave, TCFLSH, TCIFLUSH));
    EFFECT(ioctl(slave, FIONREAD, &count) == 0 && count == 0);
}

CHECK(ioctl, "cmd=TIOCGWINSZ")
{
    int fd = terminal();
    struct winsize wish = {24, 80, 0, 0}, size = {0};
    bool set = ioctl(fd, TIOCSWINSZ, &wish) == 0;
    MUST(CALL(ioctl, fd, TIOCGWINSZ, &size));
    EFFECT(!set || (size.ws_row == 24 && size.ws_col == 80));
}

CHECK(ioctl, "cmd=TIOCSWINSZ")
{
    int master, slave;
    probe_terminal(&master, &slave);
    struct winsize wish = {30, 90, 0, 0}, size = {0};
    MUST(CALL(ioctl, master, TIOCSWINSZ, &wish));
    EFFECT(ioctl(slave, TIOCGWINSZ, &size) == 0 && size.ws_row == 30 && size.ws_col == 90);
}

CHECK(ioctl, "cmd=TIOCOUTQ")
{
    int count = -1;
    MUST(CALL(ioctl, terminal(), TIOCOUTQ, &count));
    EFFECT(count == 0);
}

CHECK(ioctl, "cmd=TIOCEXCL")
{
    int fd = terminal(), on = -1;
    MUST(CALL(ioctl, fd, TIOCEXCL, 0));
    EFFECT(ioctl(fd, TIOCGEXCL, &on) == 0 && on == 1);
}

CHECK(ioctl, "cmd=TIOCNXCL")
{
    int fd = terminal(), on = -1;
    NEED(ioctl(fd, TIOCEXCL, 0) == 0, "TIOCEXCL");
    MUST(CALL(ioctl, fd, TIOCNXCL, 0));
    EFFECT(ioctl(fd, TIOCGEXCL, &on) == 0 && on == 0);
}

CHECK(ioctl, "cmd=TIOCGEXCL")
{
    int on = -1;
    MUST(CALL(ioctl, terminal(), TIOCGEXCL, &on));
    EFFECT(on == 0);
}

CHECK(ioctl, "cmd=TIOCGETD")
{
    int line = -1;
    MUST(CALL(ioctl, terminal(), TIOCGETD, &line));
    EFFECT(line == 0);
}

CHECK(ioctl, "cmd=TIOCSETD: the line discipline it has")
{
    int line = 0;
    MUST(CALL(ioctl, terminal(), TIOCSETD, &line));
}

CHECK(ioctl, "cmd=TIOCGDEV")
{
    unsigned device = 0;
    MUST(CALL(ioctl, terminal(), TIOCGDEV, &device));
    EFFECT(device >> 8 >= 136 && device >> 8 <= 143); /* the numbers of pseudo-terminals */
}

CHECK(ioctl, "cmd=TIOCPKT: a read of the master has a byte in front")
{
    int master, slave, on = 1;
    char text[16] = {0};
    probe_terminal(&master, &slave);
    MUST(CALL(ioctl, master, TIOCPKT, &on));
    NEED(write(slave, "abc", 3) == 3, "write");
    EFFECT(read(master, text, sizeof text) == 4 && text[0] == 0 && !memcmp(text + 1, "abc", 3));
}

CHECK(ioctl, "cmd=TIOCGPKT")
{
    int on = -1;
    MUST(CALL(ioctl, master_side(), TIOCGPKT, &on));
    EFFECT(on == 0);
}

CHECK(ioctl, "cmd=TIOCGPTN")
{
    int number = -1;
    MUST(CALL(ioctl, master_side(), TIOCGPTN, &number));
    EFFECT(number >= 0);
}

CHECK(ioctl, "cmd=TIOCSPTLCK")
{
    int master = master_side(), on = 1, now = -1;
    MUST(CALL(ioctl, master, TIOCSPTLCK, &on));
    EFFECT(ioctl(master, TIOCGPTLCK, &now) == 0 && now == 1);
}

CHECK(ioctl, "cmd=TIOCGPTLCK")
{
    int now = -1;
    MUST(CALL(ioctl, master_side(), TIOCGPTLCK, &now));
    EFFECT(now == 0);
}

CHECK(ioctl, "cmd=TIOCGPTPEER: the other side, without a name")
{
    int master = master_side();
    int slave = (int)MUST(CALL(ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    char text[8] = {0};
    NEED(write(slave, "abc", 3) == 3, "write");
    EFFECT(read(master, text, sizeof text) == 3 && !strcmp(text, "abc"));
}

/* With a session, whose terminal it becomes. */

static int own_terminal(int *master)
{
    int slave;
    probe_terminal(master, &slave);
    NEED(ioctl(slave, TIOCSCTTY, 0) == 0, "TIOCSCTTY");
    return slave;
}

static void takes_terminal(void)
{
    int slave = terminal();
    MUST(CALL(ioctl, slave, TIOCSCTTY, 0));
    EFFECT(open("/dev/tty", O_RDWR | O_CLOEXEC) >= 0);
}

CHECK(ioctl, "cmd=TIOCSCTTY")
{
    probe_in_session(takes_terminal);
}

static void leaves_terminal(void)
{
    int master, slave = own_terminal(&master);
    signal(SIGHUP, SIG_IGN);
    MUST(CALL(ioctl, slave, TIOCNOTTY, 0));
    EFFECT(open("/dev/tty", O_RDWR | O_CLOEXEC) == -1 && errno == ENXIO);
}

CHECK(ioctl, "cmd=TIOCNOTTY")
{
    probe_in_session(leaves_terminal);
}

static void foreground(void)
{
    int master, slave = own_terminal(&master), group = -1;
    MUST(CALL(ioctl, slave, TIOCGPGRP, &group));
    EFFECT(group == getpgrp());
}

CHECK(ioctl, "cmd=TIOCGPGRP")
{
    probe_in_session(foreground);
}

static void changes_foreground(void)
{
    int master, slave = own_terminal(&master), group = -1;
    pid_t child = probe_fork();
    if (child == 0) {
        probe_sleep(8000);
        _exit(0);
    }
    NEED(setpgid(child, child) == 0, "setpgid");
    signal(SIGTTOU, SIG_IGN);
    MUST(CALL(ioctl, slave, TIOCSPGRP, &child));
    EFFECT(ioctl(slave, TIOCGPGRP, &group) == 0 && group == child);
    kill(child, SIGKILL);
}

CHECK(ioctl, "cmd=TIOCSPGRP")
{
    probe_in_session(changes_foreground);
}

static void session(void)
{
    int master, slave = own_terminal(&master), leader = -1;
    MUST(CALL(ioctl, slave, TIOCGSID, &leader));
    EFFECT(leader == getpid());
}

CHECK(ioctl, "cmd=TIOCGSID")
{
    probe_in_session(session);
}

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

static void signals_foreground(void)
{
    int master;
    own_terminal(&master);
    struct sigaction action = {.sa_handler = note};
    NEED(sigaction(SIGINT, &action, NULL) == 0, "sigaction");
    MUST(CALL(ioctl, master, TIOCSIG, SIGINT));
    for (int n = 0; n < 2000 && !caught; n++)
        probe_sleep(1);
    EFFECT(caught == SIGINT);
}

CHECK(ioctl, "cmd=TIOCSIG")
{
    probe_in_session(signals_foreground);
}

static void types(void)
{
    int master, slave = own_terminal(&master), count = 0;
    MUST_OR(CALL(ioctl, slave, TIOCSTI, "\n"), EIO, EPERM); /* into a terminal of its own */
    EFFECT(ioctl(slave, FIONREAD, &count) == 0 && count == 1);
}

CHECK(ioctl, "cmd=TIOCSTI: typed, or switched off")
{
    probe_in_session(types);
}

static void hangs_up(void)
{
    int master, slave = own_terminal(&master);
    signal(SIGHUP, SIG_IGN);
    MUST_OR(CALL(ioctl, slave, TIOCVHANGUP, 0), EPERM); /* a terminal of its own */
}

CHECK(ioctl, "cmd=TIOCVHANGUP: or not without privilege")
{
    probe_in_session(hangs_up);
}

CHECK(ioctl, "cmd=TIOCCONS: not of a file")
{
    ANSWERS(CALL(ioctl, probe_memfd(0), TIOCCONS, 0), ENOTTY);
}

CHECK(ioctl, "cmd=TIOCLINUX: not of a file")
{
    char what = 0;
    ANSWERS(CALL(ioctl, probe_memfd(0), TIOCLINUX, &what), ENOTTY);
}

/* -- sockets -- */

static int pair(int ends[2])
{
    NEED(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    return ends[0];
}

/* A UDP socket with a datagram that it sent itself. */
static int received(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    char one;
    NEED(fd >= 0 && bind(fd, (void *)&address, sizeof address) == 0, "bind to loopback");
    NEED(getsockname(fd, (void *)&address, &length) == 0, "getsockname");
    struct timespec { long s, n; } ignored;
    (void)ioctl(fd, SIOCGSTAMP_OLD, &ignored); /* from now on stamps are taken */
    NEED(sendto(fd, "x", 1, 0, (void *)&address, length) == 1 && recv(fd, &one, 1, 0) == 1, "a datagram");
    return fd;
}

CHECK(ioctl, "cmd=SIOCGSTAMP")
{
    long stamp[2] = {0, -1};
    MUST(CALL(ioctl, received(), SIOCGSTAMP_OLD, stamp));
    EFFECT(stamp[0] > 1500000000 && stamp[1] >= 0);
}

CHECK(ioctl, "cmd=SIOCGSTAMPNS")
{
    long stamp[2] = {0, -1};
    MUST(CALL(ioctl, received(), SIOCGSTAMPNS_OLD, stamp));
    EFFECT(stamp[0] > 1500000000 && stamp[1] >= 0);
}

CHECK(ioctl, "cmd=SIOCATMARK: of a network socket")
{
    int mark = -1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "socket");
    MUST(CALL(ioctl, fd, SIOCATMARK, &mark));
    EFFECT(mark == 0 || mark == 1);
}

static void owner(int set, int get, bool under_test_sets)
{
    int ends[2], fd = pair(ends), pid = getpid(), now = -1;
    if (under_test_sets) {
        MUST(CALL(ioctl, fd, set, &pid));
        EFFECT(ioctl(fd, get, &now) == 0 && now == pid);
        return;
    }
    bool is_set = ioctl(fd, set, &pid) == 0;
    MUST(CALL(ioctl, fd, get, &now));
    EFFECT(now == (is_set ? pid : 0));
}

CHECK(ioctl, "cmd=FIOSETOWN")
{
    owner(FIOSETOWN, FIOGETOWN, true);
}
CHECK(ioctl, "cmd=FIOGETOWN")
{
    owner(FIOSETOWN, FIOGETOWN, false);
}
CHECK(ioctl, "cmd=SIOCSPGRP")
{
    owner(SIOCSPGRP, SIOCGPGRP, true);
}
CHECK(ioctl, "cmd=SIOCGPGRP")
{
    owner(SIOCSPGRP, SIOCGPGRP, false);
}

CHECK(ioctl, "cmd=TIOCOUTQ: bytes that a socket has not delivered")
{
    int ends[2], count = -1;
    pair(ends);
    NEED(write(ends[0], "hello", 5) == 5, "write");
    MUST(CALL(ioctl, ends[0], SIOCOUTQ, &count));
    EFFECT(count > 0);
}

CHECK(ioctl, "cmd=SIOCGSKNS: or not without privilege")
{
    int ends[2];
    MUST_OR(CALL(ioctl, pair(ends), SIOCGSKNS, 0), EPERM);
}

/* -- interfaces: the loopback device -- */

static int inet(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    NEED(fd >= 0, "socket");
    return fd;
}

static struct ifreq loopback(int command)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = inet();
    MUST(CALL(ioctl, fd, command, &request));
    return request;
}

static uint32_t address_of(const struct ifreq *request)
{
    return ntohl(((const struct sockaddr_in *)&request->ifr_addr)->sin_addr.s_addr);
}

CHECK(ioctl, "cmd=SIOCGIFINDEX")
{
    EFFECT(loopback(SIOCGIFINDEX).ifr_ifindex >= 1);
}

CHECK(ioctl, "cmd=SIOCGIFNAME")
{
    struct ifreq request = {.ifr_ifindex = 1};
    MUST(CALL(ioctl, inet(), SIOCGIFNAME, &request));
    EFFECT(!strcmp(request.ifr_name, "lo"));
}

CHECK(ioctl, "cmd=SIOCGIFCONF")
{
    struct ifreq list[16];
    struct ifconf all = {.ifc_len = sizeof list, .ifc_req = list};
    MUST(CALL(ioctl, inet(), SIOCGIFCONF, &all));
    EFFECT(all.ifc_len >= (int)sizeof *list && all.ifc_len % (int)sizeof *list == 0);
}

CHECK(ioctl, "cmd=SIOCGIFFLAGS")
{
    EFFECT(loopback(SIOCGIFFLAGS).ifr_flags & IFF_LOOPBACK);
}

CHECK(ioctl, "cmd=SIOCGIFADDR")
{
    struct ifreq request = loopback(SIOCGIFADDR);
    EFFECT(address_of(&request) == INADDR_LOOPBACK);
}

CHECK(ioctl, "cmd=SIOCGIFDSTADDR")
{
    struct ifreq request = loopback(SIOCGIFDSTADDR);
    EFFECT(request.ifr_addr.sa_family == AF_INET);
}

CHECK(ioctl, "cmd=SIOCGIFBRDADDR")
{
    struct ifreq request = loopback(SIOCGIFBRDADDR);
    EFFECT(request.ifr_addr.sa_family == AF_INET);
}

CHECK(ioctl, "cmd=SIOCGIFNETMASK")
{
    struct ifreq request = loopback(SIOCGIFNETMASK);
    EFFECT(address_of(&request) == 0xff000000);
}

CHECK(ioctl, "cmd=SIOCGIFMETRIC")
{
    EFFECT(loopback(SIOCGIFMETRIC).ifr_metric == 0);
}

CHECK(ioctl, "cmd=SIOCGIFMTU")
{
    EFFECT(loopback(SIOCGIFMTU).ifr_mtu >= 1280);
}

CHECK(ioctl, "cmd=SIOCGIFHWADDR")
{
    EFFECT(loopback(SIOCGIFHWADDR).ifr_hwaddr.sa_family == 772); /* ARPHRD_LOOPBACK */
}

CHECK(ioctl, "cmd=SIOCGIFTXQLEN")
{
    EFFECT(loopback(SIOCGIFTXQLEN).ifr_qlen >= 0);
}

CHECK(ioctl, "cmd=SIOCGIFMAP")
{
    loopback(SIOCGIFMAP);
}

CHECK(ioctl, "cmd=SIOCETHTOOL: whether the loopback has a link")
{
    struct ethtool_value value = {.cmd = ETHTOOL_GLINK};
    struct ifreq request = {.ifr_name = "lo", .ifr_data = (void *)&value};
    MUST(CALL(ioctl, inet(), SIOCETHTOOL, &request));
    EFFECT(value.data == 1);
}

/* -- namespaces -- */

static int own_namespace(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? probe_memfd(0) : fd;
}

CHECK(ioctl, "cmd=NS_GET_USERNS: the one that owns a namespace, or not without privilege")
{
    MUST_OR(CALL(ioctl, own_namespace("/proc/self/ns/uts"), NS_GET_USERNS, 0), EPERM);
}

CHECK(ioctl, "cmd=NS_GET_PARENT: of the user namespace, or not without privilege")
{
    MUST_OR(CALL(ioctl, own_namespace("/proc/self/ns/user"), NS_GET_PARENT, 0), EPERM);
}

/* -- processes -- */

CHECK(ioctl, "cmd=0xc040ff0b: PIDFD_GET_INFO, the number of a process, since Linux 6.13")
{
    uint64_t info[8] = {1}; /* struct pidfd_info, as it was at first; bit 0 asks for the number */
    int self = (int)RAW(pidfd_open, getpid(), 0);
    NEED(self >= 0, "pidfd_open");
    MUST_OR(CALL(ioctl, self, 0xc040ff0b, info), ENOTTY);
    EFFECT(!info[2] || (pid_t)info[2] == getpid());
}
