#include <math.h>
#include <stdio.h>

int main(void) {
    printf("%.0f 北京 [%d,%d]\n", sqrt(1764), 3, 1);
}
