#pragma once
#include <string>
struct Shape { virtual ~Shape() = default; virtual double area() const = 0; };
std::string describe(const Shape &);
