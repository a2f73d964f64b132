/* A program that takes memory for granted: alloc_fail_bites expects it to be found out. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    int *value = malloc(sizeof *value);
    *(volatile int *)value = 1;
    (void)printf("%d\n", *value);
    free(value);
    return 0;
}
