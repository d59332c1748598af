/* husk (the command): what its files share. See docs/design/023-resident.md. */
#ifndef HUSK_CLIENT_H
#define HUSK_CLIENT_H

#include <stdint.h>

#define CLIENT_PATH_MAX 4096
#define CLIENT_NOT_SERVED (-1) /* nothing has happened yet: start the ordinary way */

/* Where a resident listens: `directory` is a descriptor, or -1 where there is no place for one. */
struct client_place {
    int directory;
    char name[64];
};

/* resident_client.c: the exit code, or CLIENT_NOT_SERVED. `python` is the path of husk-python. */
int client_run(int argc, char **argv, const char *self, const char *python);

/* resident_place.c */
struct client_place client_find_place(const char *self, const char *python);
int client_connect(const struct client_place *place);
void client_start_resident(const struct client_place *place, const char *python);

#endif
