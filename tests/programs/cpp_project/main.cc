#include "shape.h"
#include <iostream>
extern "C" { int plain(int); void dyn(); }
int work();
struct Sq : Shape { double a; Sq(double x) : a(x) {} double area() const override { return a; } };
int main() { std::cout << describe(Sq(4)) << " " << plain(21) << " " << work() << std::endl; dyn(); try { describe(Sq(-1)); } catch (const std::exception &e) { std::cout << e.what() << std::endl; return 6; } }
