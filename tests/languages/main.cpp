#include <bits/stdc++.h>

int main() {
    std::vector<int> numbers{3, 1};
    std::cout << 6 * 7 << " 北京 [" << numbers[0] << ',' << numbers[1] << "]\n";
}
