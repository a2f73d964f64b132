/* Runs a fuzz target over a folder of inputs, where there is no libFuzzer: each file whole, and
 * cut at every byte, in memory of exactly that size. Usage: fuzz_NAME FOLDER. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16 };

static int replay(const char *path) {
    static uint8_t bytes[MOST_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        (void)fprintf(stderr, "%s cannot be opened\n", path);
        return 1;
    }
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *part = malloc(cut > 0 ? cut : 1);
        if (part == NULL)
            return 1;
        memcpy(part, bytes, cut);
        (void)LLVMFuzzerTestOneInput(part, cut); /* aborts on what it finds */
        free(part);
    }
    return 0;
}

int main(int argc, char **argv) {
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        (void)fprintf(stderr, "usage: %s FOLDER_OF_INPUTS\n", argv[0]);
        return 2;
    }
    int failed = 0, files = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        failed |= replay(path);
        files++;
    }
    (void)closedir(folder);
    (void)printf("%d inputs, each at every length\n", files);
    return failed != 0 || files == 0;
}
