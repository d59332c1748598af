/* native/fastpath: calls answered without Python. Returning false leaves the call to Python, unanswered. */
#ifndef HUSK_FASTPATH_H
#define HUSK_FASTPATH_H

#include "core.h"
#include "loader/directories.h"

bool fast_answer(Listener *listener, const struct seccomp_notif *notif);         /* fastpath.c; needs listener->cache */
bool fast_answer_message(Listener *listener, const struct seccomp_notif *notif); /* messages.c */

/* namecache.c: the cache's life. Several listeners may share one. */
struct fast_cache *fast_cache_new(void);                           /* one reference for the caller; NULL: no memory */
struct fast_cache *fast_cache_share(struct fast_cache *cache);     /* one more reference; NULL stays NULL */
void fast_cache_release(struct fast_cache *cache);                 /* gives one reference back */

/* held.c: close what the cache holds open. Takes the cache's lock; the cache may be NULL. */
void fast_held_release(struct fast_cache *cache);

/* direct.c: do guests look up names themselves? */
bool fast_direct_is_open(const struct fast_cache *cache);
/* direct_programs.c: this thread's program makes calls that its libraries could answer: the next time they shall. Takes
 * the cache's lock. */
void fast_direct_leads(struct fast_cache *cache, pid_t tid);
/* Which program it executes, as its loader noted it. False: it notes nothing. */
bool fast_direct_identity(pid_t tid, uint64_t identity[2]);
/* Guests lead this call site to direct names. For the receiving thread. */
void fast_direct_site(struct fast_cache *cache, const struct husk_site *site);
/* No guest looks up names itself any more. The cache may be NULL. */
void fast_direct_close(struct fast_cache *cache);

/* What Python teaches: namecache.c, listing.c and programs.c. */
PyObject *fast_py_cache_identity(Listener *self, PyObject *args);
PyObject *fast_py_cache_learn(Listener *self, PyObject *args);
PyObject *fast_py_cache_image(Listener *self, PyObject *args);
PyObject *fast_py_cache_handle(Listener *self, PyObject *args);
PyObject *fast_py_cache_path(Listener *self, PyObject *args);
PyObject *fast_py_cache_listing(Listener *self, PyObject *args);
PyObject *fast_py_cache_forget(Listener *self, PyObject *args);
PyObject *fast_py_cache_watched(Listener *self, PyObject *noargs);
PyObject *fast_py_cache_losses(Listener *self, PyObject *noargs);
PyObject *fast_py_cache_direct(Listener *self, PyObject *args);
PyObject *fast_py_cache_links(Listener *self, PyObject *noargs);
PyObject *fast_py_cache_off(Listener *self, PyObject *noargs);
PyObject *fast_py_program_learn(Listener *self, PyObject *args);

#endif
