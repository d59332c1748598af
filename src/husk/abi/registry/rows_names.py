"""Layer abi, registry rows: calls that carry a file name, and calls whose answer would show the real file behind one.

Data only. Nearly all are virtual: the host kernel must never resolve a guest's name, nor tell the guest about the host
file, placeholder directory or store file that stands behind a descriptor.
"""

from __future__ import annotations

from errno import ENOSYS, EPERM

from husk.abi.registry.rules import native, refused, virtual

ROWS = (
    # Opening and making
    virtual(2, "open", "carries a name; the descriptor husk injects is the only way a guest comes by a file"),
    virtual(85, "creat", "carries a name; it is open with O_CREAT, O_WRONLY and O_TRUNC"),
    virtual(257, "openat", "carries a name, and its directory descriptor may be a placeholder for a virtual directory"),
    virtual(437, "openat2", "carries a name and resolve flags, which only the virtual path walk can honour"),
    virtual(133, "mknod", "makes a name; FIFOs and sockets are allowed, device nodes need a capability no guest has"),
    virtual(259, "mknodat", "makes a name relative to a directory that may be a placeholder"),
    virtual(83, "mkdir", "makes a name in the virtual tree; the host directory behind a placeholder stays empty"),
    virtual(258, "mkdirat", "makes a name relative to a directory that may be a placeholder"),
    virtual(84, "rmdir", "removes a name; in a copy-on-write mount that is a whiteout, which the host does not know"),
    virtual(87, "unlink", "removes a name; in a copy-on-write mount that is a whiteout, which the host does not know"),
    virtual(263, "unlinkat", "removes a name relative to a directory that may be a placeholder"),
    virtual(82, "rename", "carries two names, and may move between layers of the virtual tree"),
    virtual(264, "renameat", "carries two names relative to directories that may be placeholders"),
    virtual(316, "renameat2", "carries two names; RENAME_EXCHANGE and RENAME_WHITEOUT act on the virtual tree"),
    virtual(86, "link", "carries two names; link counts are kept by the virtual tree"),
    virtual(265, "linkat", "carries two names; AT_EMPTY_PATH would also link a descriptor's host file"),
    virtual(88, "symlink", "makes a name whose target is a guest path"),
    virtual(266, "symlinkat", "makes a name relative to a directory that may be a placeholder"),
    # Looking
    virtual(4, "stat", "carries a name; owner, inode and link count come from the virtual tree"),
    virtual(5, "fstat", "the host file behind the descriptor has another inode, owner, mode or link count"),
    virtual(6, "lstat", "carries a name; owner, inode and link count come from the virtual tree"),
    virtual(262, "newfstatat", "carries a name, or with AT_EMPTY_PATH asks for the host file behind a descriptor"),
    virtual(332, "statx", "carries a name, or with AT_EMPTY_PATH asks for the host file and mount behind a descriptor"),
    virtual(21, "access", "carries a name; permissions are those of the virtual tree"),
    virtual(269, "faccessat", "carries a name relative to a directory that may be a placeholder"),
    virtual(439, "faccessat2", "carries a name; AT_EMPTY_PATH and AT_EACCESS are judged on the virtual file"),
    virtual(89, "readlink", "carries a name, and a native answer under /proc would show host paths"),
    virtual(267, "readlinkat", "carries a name, or with an empty one reads the link an O_PATH descriptor stands for"),
    virtual(78, "getdents", "the placeholder behind the descriptor is empty; the names are in the virtual tree"),
    virtual(217, "getdents64", "the placeholder behind the descriptor is empty; the names are in the virtual tree"),
    virtual(137, "statfs", "carries a name; the answer describes the virtual mount"),
    virtual(138, "fstatfs", "would describe the host file system that holds the file or placeholder"),
    refused(136, "ustat", ENOSYS, "names a host device by number; obsolete since statfs, and glibc dropped it"),
    refused(139, "sysfs", ENOSYS, "lists the host's file system types; obsolete, /proc/filesystems says the same"),
    virtual(303, "name_to_handle_at", "refused after the look-up: a handle names the host's inode and mount"),
    virtual(304, "open_by_handle_at", "refused in Linux's order: it opens by host inode, past every path"),
    # Where we are
    virtual(79, "getcwd", "the host would answer with the placeholder's path"),
    virtual(80, "chdir", "carries a name; husk then moves the guest into the placeholder of that directory"),
    native(
        81,
        "fchdir",
        "the only directories a guest can hold are placeholders, so it sits in one before and after; no native call "
        "resolves a path from there",
    ),
    native(95, "umask", "a number of the process; husk reads it from /proc when it makes a file"),
    virtual(161, "chroot", "refused after the name was looked up: the root of a guest is husk's virtual root"),
    # Attributes
    virtual(90, "chmod", "carries a name; the mode is kept in the virtual tree"),
    virtual(91, "fchmod", "the mode is kept in the virtual tree, not on the host file behind the descriptor"),
    virtual(268, "fchmodat", "carries a name; the mode is kept in the virtual tree"),
    virtual(452, "fchmodat2", "carries a name; with AT_SYMLINK_NOFOLLOW or AT_EMPTY_PATH unlike fchmodat"),
    virtual(92, "chown", "carries a name and a user id; the owner is kept in the virtual tree"),
    virtual(93, "fchown", "carries a user id; the owner is kept in the virtual tree, not on the host file"),
    virtual(94, "lchown", "carries a name and a user id; the owner is kept in the virtual tree"),
    virtual(260, "fchownat", "carries a name and a user id; the owner is kept in the virtual tree"),
    virtual(76, "truncate", "carries a name; a file of a lower layer is copied up first"),
    virtual(132, "utime", "carries a name; times are kept in the virtual tree"),
    virtual(235, "utimes", "carries a name; times are kept in the virtual tree"),
    virtual(261, "futimesat", "carries a name, or means the descriptor; times are kept in the virtual tree"),
    virtual(280, "utimensat", "carries a name, or means the descriptor; times are kept in the virtual tree"),
    # Extended attributes
    virtual(188, "setxattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(189, "lsetxattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(190, "fsetxattr", "attributes are kept in the virtual tree, not on the host file behind the descriptor"),
    virtual(191, "getxattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(192, "lgetxattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(193, "fgetxattr", "would show the host file's attributes, its security label among them"),
    virtual(194, "listxattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(195, "llistxattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(196, "flistxattr", "would list the host file's attributes, its security label among them"),
    virtual(197, "removexattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(198, "lremovexattr", "carries a name; attributes are kept in the virtual tree"),
    virtual(199, "fremovexattr", "attributes are kept in the virtual tree, not on the host file behind the descriptor"),
    virtual(463, "setxattrat", "carries a name; attributes are kept in the virtual tree"),
    virtual(464, "getxattrat", "carries a name; attributes are kept in the virtual tree"),
    virtual(465, "listxattrat", "carries a name; attributes are kept in the virtual tree"),
    virtual(466, "removexattrat", "carries a name; attributes are kept in the virtual tree"),
    refused(468, "file_getattr", ENOSYS, "carries a name; new in Linux 6.17, callers fall back to FS_IOC_FSGETXATTR"),
    refused(469, "file_setattr", ENOSYS, "carries a name; new in Linux 6.17, callers fall back to FS_IOC_FSSETXATTR"),
    # Watching
    native(253, "inotify_init", "a queue without a watch; husk alone puts watches into it"),
    native(294, "inotify_init1", "a queue without a watch; husk alone puts watches into it"),
    virtual(254, "inotify_add_watch", "carries a name; husk watches the host file or directory that stands behind it"),
    native(255, "inotify_rm_watch", "takes a number of the guest's own queue"),
    refused(
        300,
        "fanotify_init",
        EPERM,
        "watches whole host mounts and can hold up other processes' opens; Linux wants CAP_SYS_ADMIN for most of it",
    ),
    virtual(301, "fanotify_mark", "no fanotify descriptor can exist while fanotify_init is refused"),
)
