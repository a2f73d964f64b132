/* Linked with one whole layer, to see that the layer needs nothing from above. */
int main(void) {
    return 0;
}
