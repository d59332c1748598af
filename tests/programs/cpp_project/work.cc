#include <thread>
#include <vector>
#include <atomic>
thread_local int mine = 3;
int work() { std::atomic<int> n{0}; std::vector<std::thread> t; for (int i = 0; i < 8; i++) t.emplace_back([&] { n += mine; }); for (auto &x : t) x.join(); return n; }
