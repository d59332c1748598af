"""Layer abi, registry rows: calls on descriptors the guest already holds.

Data only. Native, because husk decided what the guest may hold when it handed the descriptor out; argument rules
where a command reaches further than its descriptor.
"""

from __future__ import annotations

from errno import EINVAL, ENOTTY, EOPNOTSUPP, EPERM

from husk.abi import ioctls
from husk.abi.numbers import F_SETOWN, FCNTL_ALLOWED, FCNTL_LOCKS, FCNTL_OWNERS, POSITIVE
from husk.abi.registry.rules import (
    ALWAYS,
    IN_HUSK,
    PID_WALL,
    PRIVATE_NET,
    RESTARTS,
    SIGNAL_WALL,
    Arg,
    absent,
    carries_cookie,
    device_given,
    native,
    native_if,
    refuse,
    refused_if,
    virtual,
    virtual_if,
)

COMMAND = Arg(1, "the command")
COMMAND_TYPE = Arg(1, "the command's type", mask=0xFF00)
# Before Linux 6.12.101, 6.18.40 and 7.1.5 Landlock's signal scope does not hold for a group that the caller is in
# (CVE-2026-72183). The reaper's group is the one that matters, and setpgid lets no guest into it. The second wall:
# without a pid namespace husk judges an owner that may be a group. It lets the guest's thread set it by F_SETOWN, which
# has the owner in a register; behind a pointer it could be changed after it was judged.
UNOWNED = "the owner of a descriptor gets signals, and no wall on this machine keeps those inside the box"

ROWS = (
    # Moving bytes
    native(0, "read(fd: fd, buf: buf, count: size)", "reads through a descriptor husk handed out", eintr=RESTARTS),
    native(1, "write(fd: fd, buf: buf, count: size)",
           "writes through a descriptor husk opened for writing", eintr=RESTARTS),
    native(17, "pread64(fd: fd, buf: buf, count: size, pos: offset)",
           "reads at an offset through a descriptor husk handed out", eintr=RESTARTS),
    native(18, "pwrite64(fd: fd, buf: buf, count: size, pos: offset)",
           "writes at an offset through a descriptor husk opened for writing", eintr=RESTARTS),
    native(19, "readv(fd: fd, vec: *iovec, vlen: ulong)", "read into several buffers of the caller", eintr=RESTARTS),
    native(20, "writev(fd: fd, vec: *iovec, vlen: ulong)", "write from several buffers of the caller", eintr=RESTARTS),
    native(295, "preadv(fd: fd, vec: *iovec, vlen: ulong, pos_l: ulong, pos_h: ulong)",
           "pread64 into several buffers of the caller", eintr=RESTARTS),
    native(296, "pwritev(fd: fd, vec: *iovec, vlen: ulong, pos_l: ulong, pos_h: ulong)",
           "pwrite64 from several buffers of the caller", eintr=RESTARTS),
    native(327, "preadv2(fd: fd, vec: *iovec, vlen: ulong, pos_l: ulong, pos_h: ulong, flags: RWF_*)",
           "preadv with flags for this one call", eintr=RESTARTS),
    native(328, "pwritev2(fd: fd, vec: *iovec, vlen: ulong, pos_l: ulong, pos_h: ulong, flags: RWF_*)",
           "pwritev with flags for this one call", eintr=RESTARTS),
    native(40, "sendfile(out_fd: fd, in_fd: fd, offset: *offset, count: size)",
           "copies between two descriptors the guest holds", eintr=RESTARTS),
    native(275, "splice(fd_in: fd, off_in: *offset, fd_out: fd, off_out: *offset, len: size, flags: SPLICE_F_*)",
           "moves pages between two descriptors the guest holds", eintr=RESTARTS),
    native(276, "tee(fdin: fd, fdout: fd, len: size, flags: SPLICE_F_*)",
           "duplicates bytes between two pipes the guest holds", eintr=RESTARTS),
    native(278, "vmsplice(fd: fd, uiov: *iovec, nr_segs: ulong, flags: SPLICE_F_*)",
           "maps the caller's own pages into a pipe it holds", eintr=RESTARTS),
    native(326, "copy_file_range(fd_in: fd, off_in: *offset, fd_out: fd, off_out: *offset, len: size, flags: uint)",
           "copies between two descriptors the guest holds", eintr=RESTARTS),
    # The descriptor and its file
    native(3, "close(fd: fd)",
           "closes a descriptor; husk keeps no copy of the guest's table, and close must never see EINTR"),
    native(436, "close_range(fd: fd, max_fd: fd, flags: CLOSE_RANGE_*)",
           "closes or marks a range of the guest's own descriptors"),
    native(8, "lseek(fd: fd, offset: offset, whence: SEEK_*)",
           "moves a held descriptor's position; in a directory, the place where getdents64 continues"),
    native(32, "dup(fildes: fd)", "copies a descriptor within the guest's own table"),
    native(33, "dup2(oldfd: fd, newfd: fd)", "copies a descriptor within the guest's own table"),
    native(292, "dup3(oldfd: fd, newfd: fd, flags: O_*)", "copies a descriptor within the guest's own table"),
    native(74, "fsync(fd: fd)", "flushes a file the guest holds"),
    native(75, "fdatasync(fd: fd)", "flushes a file the guest holds"),
    native(77, "ftruncate(fd: fd, length: offset)",
           "wants a descriptor open for writing, and husk opens only upper files that way"),
    virtual("setattr", 285, "fallocate(fd: fd, mode: FALLOC_FL_*, offset: offset, len: offset)",
            "the host does it, unless the box's disk is limited: one call could take all of it"),
    native(162, "sync()", "asks the host to write back dirty pages, as any user may"),
    native(306, "syncfs(fd: fd)", "flushes the file system of a file the guest holds"),
    native(277, "sync_file_range(fd: fd, offset: offset, nbytes: offset, flags: SYNC_FILE_RANGE_*)",
           "flushes a range of a file the guest holds"),
    native(187, "readahead(fd: fd, offset: offset, count: size)", "a hint on a file the guest holds"),
    native(221, "fadvise64(fd: fd, offset: offset, len: size, advice: POSIX_FADV_*)",
           "a hint on a file the guest holds"),
    native(451, "cachestat(fd: fd, cstat_range: *cachestat_range, cstat: *cachestat, flags: uint)",
           "counts cached pages of a file the guest holds, as mincore does for a mapping"),
    virtual("locking", 73, "flock(fd: fd, cmd: LOCK_*)",
            "locks an open file; on a file that the host or other boxes have too, the lock is the box's own",
            eintr=IN_HUSK),
    native(
        72,
        "fcntl(fd: fd, cmd: F_*, arg: ulong)",
        "its allowed commands change a held descriptor",
        virtual_if(COMMAND.is_in(FCNTL_LOCKS)),
        native_if(COMMAND.is_in(FCNTL_ALLOWED)),
        native_if(PID_WALL, COMMAND.is_in(FCNTL_OWNERS)),
        native_if(SIGNAL_WALL, COMMAND.is_in(F_SETOWN), Arg(2, "the owner").within(POSITIVE)),
        native_if(SIGNAL_WALL, COMMAND.is_in(F_SETOWN), carries_cookie(5)),
        virtual_if(SIGNAL_WALL, COMMAND.is_in(FCNTL_OWNERS)),
        refused_if(EPERM, UNOWNED, COMMAND.is_in(FCNTL_OWNERS)),
        otherwise=refuse(
            EINVAL,
            "F_SETLEASE would hold up host writers of the same file, F_NOTIFY would watch a placeholder, and no other "
            "command is on the list",
        ),
        family="locking",
        eintr=RESTARTS,  # F_SETLKW
    ),
    native(
        16,
        "ioctl(fd: fd, cmd: ioctl, arg: addr)",
        "the listed commands stay with the descriptor they are given: terminals, queue lengths, clones, flags",
        native_if(COMMAND.is_in(ioctls.ANYWHERE)),
        virtual_if(COMMAND.is_in(ioctls.PEER)),
        virtual_if(COMMAND.is_in({**ioctls.PROCESS, **ioctls.MAPS})),
        native_if(PRIVATE_NET, COMMAND.is_in(ioctls.INTERFACE)),
        virtual_if(COMMAND.is_in(ioctls.INTERFACE)),
        native_if(PID_WALL, COMMAND.is_in(ioctls.OWNER)),
        virtual_if(SIGNAL_WALL, COMMAND.is_in(ioctls.OWNER)),
        refused_if(EPERM, UNOWNED, COMMAND.is_in(ioctls.OWNER)),
        *(
            native_if(device_given(kind), COMMAND_TYPE.is_in(types)) for kind, types in ioctls.DEVICE_TYPES.items()
        ),
        refused_if(
            EOPNOTSUPP,
            "it tells where on the host's disk a file lies, or changes that",
            COMMAND.is_in(ioctls.PLACES),
            quiet=True,
        ),
        otherwise=refuse(
            ENOTTY,
            "not on the list of commands that stay with their descriptor; others type into a terminal, or change a "
            "file that was opened for reading",
        ),
        family="tty",
        eintr=RESTARTS,  # a terminal's background check and drain
    ),
    # Waiting for descriptors
    native(7, "poll(ufds: *pollfd, nfds: uint, timeout_msecs: int)",
           "waits for descriptors the guest holds", eintr=ALWAYS),
    native(271, "ppoll(ufds: *pollfd, nfds: uint, tsp: *timespec, sigmask: *sigset, sigsetsize: size)",
           "waits for descriptors the guest holds", eintr=ALWAYS),
    native(23, "select(n: int, inp: *fd_set, outp: *fd_set, exp: *fd_set, tvp: *timeval)",
           "waits for descriptors the guest holds", eintr=ALWAYS),
    native(270, "pselect6(n: int, inp: *fd_set, outp: *fd_set, exp: *fd_set, tsp: *timespec, sig: buf)",
           "waits for descriptors the guest holds", eintr=ALWAYS),
    native(213, "epoll_create(size: int)", "makes a set of descriptors to wait for"),
    native(291, "epoll_create1(flags: EPOLL_*)", "makes a set of descriptors to wait for"),
    native(233, "epoll_ctl(epfd: fd, op: EPOLL_CTL_*, fd: fd, event: *epoll_event)",
           "adds descriptors the guest holds to a set it holds"),
    native(232, "epoll_wait(epfd: fd, events: *epoll_event, maxevents: int, timeout: int)",
           "waits for a set of descriptors the guest holds", eintr=ALWAYS),
    native(281,
           "epoll_pwait(epfd: fd, events: *epoll_event, maxevents: int, timeout: int, sigmask: *sigset, "
           "sigsetsize: size)",
           "waits for a set of descriptors the guest holds", eintr=ALWAYS),
    native(441,
           "epoll_pwait2(epfd: fd, events: *epoll_event, maxevents: int, timeout: *timespec, sigmask: *sigset, "
           "sigsetsize: size)",
           "epoll_pwait with a finer time-out", eintr=ALWAYS),
    # Descriptors without a name
    native(22, "pipe(fildes: *int)", "makes two descriptors that have no name"),
    native(293, "pipe2(fildes: *int, flags: O_*)", "makes two descriptors that have no name"),
    native(284, "eventfd(count: uint)", "makes a counter that has no name"),
    native(290, "eventfd2(count: uint, flags: EFD_*)", "makes a counter that has no name"),
    native(282, "signalfd(ufd: fd, user_mask: *sigset, sizemask: size)", "turns the caller's own signals into reads"),
    native(289, "signalfd4(ufd: fd, user_mask: *sigset, sizemask: size, flags: SFD_*)",
           "turns the caller's own signals into reads"),
    native(283, "timerfd_create(clockid: CLOCK_*, flags: TFD_*)", "makes a timer that has no name"),
    native(286, "timerfd_settime(ufd: fd, flags: TFD_TIMER_*, utmr: *itimerspec, otmr: *itimerspec)",
           "sets a timer the guest holds"),
    native(287, "timerfd_gettime(ufd: fd, otmr: *itimerspec)", "reads a timer the guest holds"),
    native(319, "memfd_create(uname: text, flags: MFD_*)",
           "makes an anonymous file; its name is a label, and execve still judges it"),
    # Asynchronous I/O
    native(206, "io_setup(nr_events: uint, ctxp: *ulong)",
           "makes a queue whose requests read, write and poll held descriptors, nothing else"),
    native(207, "io_destroy(ctx: ulong)", "removes a queue made with io_setup"),
    native(208, "io_getevents(ctx_id: ulong, min_nr: long, nr: long, events: *io_event, timeout: *timespec)",
           "collects finished requests of the guest's own queue", eintr=ALWAYS),
    native(333,
           "io_pgetevents(ctx_id: ulong, min_nr: long, nr: long, events: *io_event, timeout: *timespec, "
           "usig: *aio_sigset)",
           "io_getevents with a signal mask for the wait", eintr=ALWAYS),
    native(209, "io_submit(ctx_id: ulong, nr: long, iocbpp: **iocb)",
           "queues reads, writes and polls on descriptors the guest holds; it cannot open"),
    native(210, "io_cancel(ctx_id: ulong, iocb: *iocb, result: *io_event)",
           "takes back a request of the guest's own queue"),
    absent(425, "io_uring_setup(entries: uint, params: *io_uring_params)",
           "its queue opens files and sockets without calls that the filter could see"),
    absent(426, "io_uring_enter(fd: fd, to_submit: uint, min_complete: uint, flags: uint, argp: buf, argsz: size)",
           "no ring can exist while io_uring_setup is refused"),
    absent(427, "io_uring_register(fd: fd, opcode: uint, arg: buf, nr_args: uint)",
           "no ring can exist while io_uring_setup is refused"),
)
