"""Layer abi, registry rows: calls on descriptors the guest already holds.

Data only. Native, because husk decided what the guest may hold when it handed the descriptor out; argument rules
where a command reaches further than its descriptor.
"""

from __future__ import annotations

from errno import EINVAL, ENOTTY, EOPNOTSUPP, EPERM

from husk.abi import ioctls
from husk.abi.numbers import FCNTL_ALLOWED, FCNTL_OWNERS
from husk.abi.registry.rules import (
    NET_WALL,
    SIGNAL_WALL,
    Arg,
    absent,
    native,
    native_if,
    refuse,
    refused_if,
    virtual,
    virtual_if,
)

COMMAND = Arg(1, "the command")

ROWS = (
    # Moving bytes
    native(0, "read", "reads through a descriptor husk handed out", interruptible=True),
    native(1, "write", "writes through a descriptor husk opened for writing", interruptible=True),
    native(17, "pread64", "reads at an offset through a descriptor husk handed out", interruptible=True),
    native(18, "pwrite64", "writes at an offset through a descriptor husk opened for writing", interruptible=True),
    native(19, "readv", "read into several buffers of the caller", interruptible=True),
    native(20, "writev", "write from several buffers of the caller", interruptible=True),
    native(295, "preadv", "pread64 into several buffers of the caller", interruptible=True),
    native(296, "pwritev", "pwrite64 from several buffers of the caller", interruptible=True),
    native(327, "preadv2", "preadv with flags for this one call", interruptible=True),
    native(328, "pwritev2", "pwritev with flags for this one call", interruptible=True),
    native(40, "sendfile", "copies between two descriptors the guest holds", interruptible=True),
    native(275, "splice", "moves pages between two descriptors the guest holds", interruptible=True),
    native(276, "tee", "duplicates bytes between two pipes the guest holds", interruptible=True),
    native(278, "vmsplice", "maps the caller's own pages into a pipe it holds", interruptible=True),
    native(326, "copy_file_range", "copies between two descriptors the guest holds", interruptible=True),
    # The descriptor and its file
    native(3, "close", "gives a descriptor up; husk keeps none of the guest's table, and close must never see EINTR"),
    native(436, "close_range", "closes or marks a range of the guest's own descriptors"),
    native(8, "lseek", "moves a held descriptor's position; of a directory, the cookie getdents64 goes on from"),
    native(32, "dup", "copies a descriptor within the guest's own table"),
    native(33, "dup2", "copies a descriptor within the guest's own table"),
    native(292, "dup3", "copies a descriptor within the guest's own table"),
    native(74, "fsync", "flushes a file the guest holds"),
    native(75, "fdatasync", "flushes a file the guest holds"),
    native(77, "ftruncate", "wants a descriptor open for writing, and husk opens only upper files so"),
    virtual(285, "fallocate", "the host does it, unless the box's disk is limited: it takes any of it at one stroke"),
    native(162, "sync", "asks the host to write back what is dirty, as any of its users may"),
    native(306, "syncfs", "flushes the file system of a file the guest holds"),
    native(277, "sync_file_range", "flushes a range of a file the guest holds"),
    native(187, "readahead", "a hint on a file the guest holds"),
    native(221, "fadvise64", "a hint on a file the guest holds"),
    native(451, "cachestat", "counts cached pages of a file the guest holds, as mincore does of a mapping"),
    native(73, "flock", "locks the open file behind a held descriptor", interruptible=True),
    native(
        72,
        "fcntl",
        "its allowed commands change a held descriptor or lock the file behind it",
        native_if(COMMAND.is_in(FCNTL_ALLOWED)),
        native_if(SIGNAL_WALL, COMMAND.is_in(FCNTL_OWNERS)),
        refused_if(
            EPERM,
            "the owner of a descriptor is sent signals, and no wall on this machine keeps those inside the box",
            COMMAND.is_in(FCNTL_OWNERS),
        ),
        otherwise=refuse(
            EINVAL,
            "F_SETLEASE would hold up host writers of the same file, F_NOTIFY would watch a placeholder, and no other "
            "command is on the list",
        ),
        interruptible=True,  # F_SETLKW
    ),
    native(
        16,
        "ioctl",
        "the listed commands stay with the descriptor they are given: terminals, queue lengths, clones, flags",
        native_if(COMMAND.is_in(ioctls.ANYWHERE)),
        virtual_if(COMMAND.is_in(ioctls.PEER)),
        native_if(NET_WALL, COMMAND.is_in(ioctls.INTERFACE)),
        native_if(SIGNAL_WALL, COMMAND.is_in(ioctls.OWNER)),
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
        interruptible=True,  # a terminal's background check and drain
    ),
    # Waiting for descriptors: poll and its kin give EINTR after any handler, with or without SA_RESTART
    native(7, "poll", "waits for descriptors the guest holds"),
    native(271, "ppoll", "waits for descriptors the guest holds"),
    native(23, "select", "waits for descriptors the guest holds"),
    native(270, "pselect6", "waits for descriptors the guest holds"),
    native(213, "epoll_create", "makes a set of descriptors to wait for"),
    native(291, "epoll_create1", "makes a set of descriptors to wait for"),
    native(233, "epoll_ctl", "adds descriptors the guest holds to a set it holds"),
    native(232, "epoll_wait", "waits for a set of descriptors the guest holds"),
    native(281, "epoll_pwait", "waits for a set of descriptors the guest holds"),
    native(441, "epoll_pwait2", "epoll_pwait with a finer time-out"),
    # Descriptors without a name
    native(22, "pipe", "makes two descriptors that have no name"),
    native(293, "pipe2", "makes two descriptors that have no name"),
    native(284, "eventfd", "makes a counter that has no name"),
    native(290, "eventfd2", "makes a counter that has no name"),
    native(282, "signalfd", "turns the caller's own signals into reads"),
    native(289, "signalfd4", "turns the caller's own signals into reads"),
    native(283, "timerfd_create", "makes a timer that has no name"),
    native(286, "timerfd_settime", "sets a timer the guest holds"),
    native(287, "timerfd_gettime", "reads a timer the guest holds"),
    native(319, "memfd_create", "makes an anonymous file; its name is a label, and execve still judges it"),
    # Asynchronous I/O
    native(206, "io_setup", "makes a queue whose requests read, write and poll held descriptors, nothing else"),
    native(207, "io_destroy", "gives up a queue made with io_setup"),
    native(208, "io_getevents", "collects finished requests of the guest's own queue"),
    native(333, "io_pgetevents", "io_getevents with a signal mask for the wait"),
    native(209, "io_submit", "queues reads, writes and polls on descriptors the guest holds; it cannot open"),
    native(210, "io_cancel", "takes back a request of the guest's own queue"),
    absent(425, "io_uring_setup", "its queue opens files and sockets without a call the filter could see"),
    absent(426, "io_uring_enter", "no ring can exist while io_uring_setup is refused"),
    absent(427, "io_uring_register", "no ring can exist while io_uring_setup is refused"),
)
