// Features that need a correct AT_PHDR: exceptions, TLS, constructors, threads.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static thread_local int counter = 40;
static thread_local std::string text = "tls";
static std::vector<int> made{1, 2, 3};

static int fail(int depth)
{
    if (depth == 0)
        throw std::runtime_error("thrown");
    return fail(depth - 1) + 1;
}

static void check(const char *who)
{
    counter += 2;
    text += who;
    try {
        fail(20);
    } catch (const std::runtime_error &e) {
        std::printf("%s %s %d %s\n", who, e.what(), counter, text.c_str());
    }
}

int main()
{
    check("main");
    std::thread(check, "thread").join();
    std::printf("%zu\n", made.size());
    return 0;
}
