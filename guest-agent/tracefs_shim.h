/* What is used of libtracefs, in C: the header of version 1.6.4 is not valid C++ (an inline
 * function turns an int into an enum, and there is no extern "C").
 *
 * Each function sets the library's root directory first, because the library keeps one for the
 * whole process. They are called from one thread only. A result is 0, or the negative errno. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct tracefs_instance;

/* Makes the instance, or takes the one that is there already: *is_new tells which. */
int vtrace_instance_create(const char* root, const char* name, struct tracefs_instance** instance,
                           int* is_new);
/* Removes its directory from tracefs; the handle stays to be freed. */
int vtrace_instance_destroy(const char* root, struct tracefs_instance* instance);
void vtrace_instance_free(struct tracefs_instance* instance);

/* Writes a file of the instance, such as "events/sched/enable": the library's own calls for events
 * know no file of a whole system. */
int vtrace_instance_write(const char* root, struct tracefs_instance* instance, const char* file,
                          const char* text);
int vtrace_instance_tracing(const char* root, struct tracefs_instance* instance, int on);

/* The last message of the instance's error_log, to be freed by the caller; null where none is. */
char* vtrace_error_last(const char* root, struct tracefs_instance* instance);
int vtrace_error_clear(const char* root, struct tracefs_instance* instance);

#ifdef __cplusplus
}
#endif
