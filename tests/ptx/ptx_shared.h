/* A block's shared memory, and who may read and write which of its bytes when. A value is its
 * writer's alone until bar.warp.sync gives it to the warp or bar.sync to the block; bytes that
 * others have read may be written after the same barriers only; mma, ldmatrix and shuffles order
 * nothing. Bytes nobody wrote, and those that a copy (cp.async) is on its way to, cannot be read.
 */
#ifndef PTX_SHARED_H
#define PTX_SHARED_H

#include <cstdint>
#include <vector>

struct ptx_shared {
    /* Uninitialised, for a block of so many threads. */
    void open(uint32_t bytes, uint32_t threads);

    /* Failures throw ptx_failure. Addresses start at PTX_SHARED_BASE; 2, 4, 8 or 16 bytes. */
    template <uint32_t bytes> void read(uint32_t thread, uint32_t address, void *to);
    template <uint32_t bytes> void write(uint32_t thread, uint32_t address, const void *from);
    /* An atomic addition; not in conflict with its like. */
    void add(uint32_t thread, uint32_t address, uint32_t value, uint32_t *before);
    void copy_starts(uint32_t thread, uint32_t address, uint32_t bytes);
    void copy_lands(uint32_t thread, uint32_t address, uint32_t bytes, const void *from);

    void sync_block();
    void sync_warp(uint32_t warp);

  private:
    /* Time is the number of barriers so far. */
    struct cell {
        uint32_t write_time, read_time;
        uint16_t writer, reader;
        uint8_t state;
        uint8_t readers;
    };
    static constexpr uint32_t cell_bytes = 2; /* no kernel reads or writes less */

    cell *cells_at(uint32_t address, uint32_t bytes, const char *what);
    bool ordered(uint32_t earlier_thread, uint32_t thread, uint32_t time) const;
    void note_read(cell &at, uint32_t thread, uint32_t offset);
    void note_sum(cell &at, uint32_t thread, uint32_t offset);
    void note_write(cell &at, uint32_t thread, uint32_t offset, bool by_copy);

    std::vector<uint8_t> bytes;
    std::vector<cell> cells;
    std::vector<uint32_t> warp_times; /* of each warp's last barrier */
    uint32_t size = 0, time = 0, block_time = 0;
};

#endif
