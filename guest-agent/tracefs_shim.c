#include "guest-agent/tracefs_shim.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <tracefs.h>

/* The library prints warnings of its own otherwise. */
static int use_root(const char* root) {
  tracefs_set_loglevel(TEP_LOG_NONE);
  errno = 0;
  /* The parameter is not const for no reason: the library copies it. */
  if (tracefs_set_tracing_dir((char*)root) != 0) return errno != 0 ? -errno : -ENOMEM;
  errno = 0;
  return 0;
}

/* The library tells of failure by its return value and leaves errno as the system call set it. */
static int outcome(bool ok) {
  if (ok) return 0;
  return errno != 0 ? -errno : -EIO;
}

int vtrace_instance_create(const char* root, const char* name, struct tracefs_instance** instance,
                           int* is_new) {
  const int status = use_root(root);
  if (status != 0) return status;
  *instance = tracefs_instance_create(name);
  if (*instance == NULL) return outcome(false);
  *is_new = tracefs_instance_is_new(*instance) ? 1 : 0;
  return 0;
}

int vtrace_instance_destroy(const char* root, struct tracefs_instance* instance) {
  const int status = use_root(root);
  if (status != 0) return status;
  return outcome(tracefs_instance_destroy(instance) == 0);
}

void vtrace_instance_free(struct tracefs_instance* instance) {
  tracefs_instance_free(instance);
}

int vtrace_instance_write(const char* root, struct tracefs_instance* instance, const char* file,
                          const char* text) {
  const int status = use_root(root);
  if (status != 0) return status;
  return outcome(tracefs_instance_file_write(instance, file, text) >= 0);
}

int vtrace_instance_tracing(const char* root, struct tracefs_instance* instance, int on) {
  const int status = use_root(root);
  if (status != 0) return status;
  return outcome((on != 0 ? tracefs_trace_on(instance) : tracefs_trace_off(instance)) == 0);
}

char* vtrace_error_last(const char* root, struct tracefs_instance* instance) {
  if (use_root(root) != 0) return NULL;
  return tracefs_error_last(instance);
}

int vtrace_error_clear(const char* root, struct tracefs_instance* instance) {
  const int status = use_root(root);
  if (status != 0) return status;
  return outcome(tracefs_error_clear(instance) == 0);
}
