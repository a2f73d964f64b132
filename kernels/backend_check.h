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
 * STATUS_REFUSED for 2^31 tokens and more in one segment. With dev_selected, which is the device's
 * own result and not read, every entry up to each sequence's length, and that the plan asks for no
 * place a list does not have. */
enum status backend_check_attend(const struct backend_ops *ops, struct backend_device *device,
                                 const struct backend_attend *work, struct status_text *text);
enum status backend_check_append(const struct backend_ops *ops, struct backend_device *device,
                                 const struct backend_append *work, struct status_text *text);
/* Every entry up to each length; also that the scores' rows are long enough, and lengths below
 * 2^31.
 */
enum status backend_check_index_score(const struct backend_ops *ops, struct backend_device *device,
                                      const struct backend_index_score *work,
                                      struct status_text *text);

#ifdef __cplusplus
}
#endif
#endif
