/* What is looked at before a device is given work: every page table entry the work will use, read
 * back from the device once, so that nothing is checked inside a timed window and a bad entry is
 * refused before anything runs. Works for every backend. */
#ifndef BACKEND_CHECK_H
#define BACKEND_CHECK_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* STATUS_BAD_INPUT naming sequence, column and value when an entry that a token of the work needs
 * is not in [0, page_count), or when the table is too short: a row's tokens then share columns.
 * STATUS_REFUSED for 2^31 tokens and more in one segment. */
enum status backend_check_attend(const struct backend_ops *ops, struct backend_device *device,
                                 const struct backend_attend *work, struct status_text *text);
enum status backend_check_append(const struct backend_ops *ops, struct backend_device *device,
                                 const struct backend_append *work, struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
