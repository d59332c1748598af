/* What the arguments of the calls look like. A call without a shape here gets six arguments of any kind: new rows of the
 * registry are attacked from their first day, and better once somebody writes their shape down.
 *   p name   f descriptor   i number   g flags   m mode   s structure   o room for a result   n its length
 *   a socket address   l its length   L pointer to a length   M message   P process   S signal
 *   V address that may be unmapped   v length of that   h open_how   x vector of strings   c flags of clone, seldom one that shares memory
 */
#ifndef FUZZ_SHAPES_H
#define FUZZ_SHAPES_H

static const struct {
    const char *call, *shape;
} SHAPES[] = {
    {"open", "pgm"}, {"openat", "fpgm"}, {"openat2", "fphn"}, {"creat", "pm"}, {"stat", "po"}, {"lstat", "po"},
    {"fstat", "fo"}, {"newfstatat", "fpog"}, {"statx", "fpgio"}, {"access", "pm"}, {"faccessat", "fpm"},
    {"faccessat2", "fpmg"}, {"readlink", "pon"}, {"readlinkat", "fpon"}, {"rename", "pp"}, {"renameat", "fpfp"},
    {"renameat2", "fpfpg"}, {"link", "pp"}, {"linkat", "fpfpg"}, {"symlink", "pp"}, {"symlinkat", "pfp"},
    {"unlink", "p"}, {"unlinkat", "fpg"}, {"mkdir", "pm"}, {"mkdirat", "fpm"}, {"rmdir", "p"}, {"mknod", "pmi"},
    {"mknodat", "fpmi"}, {"chmod", "pm"}, {"fchmod", "fm"}, {"fchmodat", "fpm"}, {"fchmodat2", "fpmg"},
    {"chown", "pii"}, {"lchown", "pii"}, {"fchown", "fii"}, {"fchownat", "fpiig"}, {"truncate", "pn"},
    {"ftruncate", "fn"}, {"fallocate", "fgnn"}, {"utime", "ps"}, {"utimes", "ps"}, {"futimesat", "fps"},
    {"utimensat", "fpsg"}, {"chdir", "p"}, {"fchdir", "f"}, {"getcwd", "on"}, {"chroot", "p"}, {"statfs", "po"},
    {"fstatfs", "fo"}, {"getdents", "fon"}, {"getdents64", "fon"}, {"setxattr", "ppsng"}, {"lsetxattr", "ppsng"},
    {"fsetxattr", "fpsng"}, {"getxattr", "ppon"}, {"lgetxattr", "ppon"}, {"fgetxattr", "fpon"}, {"listxattr", "pon"},
    {"llistxattr", "pon"}, {"flistxattr", "fon"}, {"removexattr", "pp"}, {"lremovexattr", "pp"},
    {"fremovexattr", "fp"}, {"execve", "pxx"}, {"execveat", "fpxxg"}, {"inotify_add_watch", "fpg"},
    {"inotify_rm_watch", "fi"}, {"read", "fon"}, {"write", "fsn"}, {"pread64", "fonn"}, {"pwrite64", "fsnn"},
    {"readv", "fsi"}, {"writev", "fsi"}, {"preadv", "fsiii"}, {"pwritev", "fsiii"}, {"lseek", "fii"}, {"dup", "f"},
    {"dup2", "ff"}, {"dup3", "ffg"}, {"fcntl", "fis"}, {"ioctl", "fis"}, {"flock", "fi"}, {"sendfile", "ffsn"},
    {"splice", "fsfsng"}, {"tee", "ffng"}, {"vmsplice", "fsig"}, {"copy_file_range", "fsfsng"}, {"close", "f"},
    {"close_range", "ffg"}, {"socket", "iii"}, {"socketpair", "iiio"}, {"bind", "fal"}, {"connect", "fal"},
    {"sendto", "fsngal"}, {"recvfrom", "fongoL"}, {"sendmsg", "fMg"}, {"recvmsg", "fMg"}, {"sendmmsg", "fMig"},
    {"recvmmsg", "fMigs"}, {"accept", "foL"}, {"accept4", "foLg"}, {"listen", "fi"}, {"getsockname", "foL"},
    {"getpeername", "foL"}, {"setsockopt", "fiisn"}, {"getsockopt", "fiioL"}, {"shutdown", "fi"}, {"kill", "PS"},
    {"tkill", "PS"}, {"tgkill", "PPS"}, {"rt_sigqueueinfo", "PSs"}, {"rt_tgsigqueueinfo", "PPSs"},
    {"pidfd_open", "Pg"}, {"pidfd_getfd", "ffg"}, {"pidfd_send_signal", "fSsg"}, {"prlimit64", "Piso"},
    {"rt_sigaction", "Ssoi"}, {"rt_sigprocmask", "isoi"}, {"sigaltstack", "so"}, {"prctl", "issss"},
    {"process_vm_readv", "Psisig"}, {"process_vm_writev", "Psisig"}, {"ptrace", "iPss"}, {"setpgid", "PP"},
    {"getpgid", "P"}, {"getsid", "P"}, {"wait4", "Poio"}, {"waitid", "iPoio"}, {"mmap", "Vvggfi"}, {"munmap", "Vv"},
    {"mprotect", "Vvg"}, {"mremap", "VvvgV"}, {"madvise", "Vvi"}, {"mlock", "Vv"}, {"munlock", "Vv"},
    {"mincore", "Vvo"}, {"remap_file_pages", "Vviig"}, {"mbind", "Vvisig"}, {"msync", "Vvg"}, {"mlock2", "Vvg"},
    {"pkey_mprotect", "Vvgi"}, {"mseal", "Vvg"}, {"process_madvise", "fsiig"}, {"shmat", "iVg"}, {"poll", "sii"},
    {"epoll_ctl", "fifs"}, {"epoll_wait", "foii"}, {"umask", "m"}, {"uname", "o"}, {"sethostname", "pn"},
    {"setdomainname", "pn"}, {"mount", "pppgs"}, {"umount2", "pg"}, {"pivot_root", "pp"}, {"swapon", "pg"},
    {"acct", "p"}, {"quotactl", "ipis"}, {"name_to_handle_at", "fpsog"}, {"open_by_handle_at", "fsg"},
    {"fanotify_mark", "fgifp"}, {"open_tree", "fpg"}, {"move_mount", "fpfpg"}, {"fsopen", "pg"},
    {"fspick", "fpg"}, {"mount_setattr", "fpgsn"}, {"memfd_create", "pg"}, {"mq_open", "pgms"}, {"mq_unlink", "p"},
    {"io_setup", "io"}, {"io_submit", "sis"}, {"getrandom", "ong"}, {"seccomp", "igs"}, {"clone", "csoos"},
    {"clone3", "sn"}, {"futex", "siisoi"}, {"set_robust_list", "sn"}, {"setns", "fg"}, {"landlock_add_rule", "fisg"},
    {"kcmp", "PPiff"}, {"file_getattr", "fpong"}, {"file_setattr", "fpsng"}, {"setxattrat", "fpgpsn"},
    {"getxattrat", "fpgpon"}, {"listxattrat", "fpgon"}, {"removexattrat", "fpgp"}, {"statmount", "song"},
    {"husk_call", "oiiiii"}, {"vmsplice", "fsig"}, {"readahead", "fin"}, {"fadvise64", "fini"},
    {"sync_file_range", "finng"}, {"arch_prctl", "is"}, {"modify_ldt", "ion"}, {"sched_setaffinity", "Pns"},
};

#endif
