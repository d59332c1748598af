/*
 * A stand-in for a GoogleTest program: it understands the few options that `husk conform` uses, and prints as GoogleTest
 * does. Its cases do what real ones do on bad days. MINI_MODE makes the whole program misbehave, MINI_HOST_FILE names a
 * file that exists natively alone, and MINI_MARK names the process that a case leaves behind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PASSED, FAILED, SKIPPED };

static int passes(void)
{
	return PASSED;
}

static int fails(void)
{
	printf("mini.cc:12: Failure\nExpected equality of these values:\n  1\n  2\n\n");
	return FAILED;
}

static int skips(void)
{
	printf("mini.cc:20: Skipped\nnot on this machine\n\n");
	return SKIPPED;
}

static int crashes(void)
{
	printf("about to crash\n");
	fflush(stdout);
	raise(SIGSEGV);
	return FAILED;
}

static int hangs(void)
{
	for (;;)
		pause();
	return FAILED;
}

static int exits(void)
{
	exit(0);
}

static int leaves(void)
{
	const char *mark = getenv("MINI_MARK");
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			prctl(PR_SET_NAME, mark ? mark : "mini-left");
			sleep(600);
		}
		_exit(0);
	}
	return PASSED;
}

static int garbage(void)
{
	for (int byte = 0; byte < 256; byte++)
		putchar(byte);
	printf("[ RUN      ] \033[31m\xff\xfe no end of line");
	return PASSED;
}

static int finds_host_file(void)
{
	const char *name = getenv("MINI_HOST_FILE");
	if (name && access(name, F_OK) == 0)
		return PASSED;
	printf("mini.cc:70: Failure\nthe file is not there\n\n");
	return FAILED;
}

static int hangs_without_host_file(void)
{
	return finds_host_file() == PASSED ? PASSED : hangs();
}

/* Natively it passes in every other run: it can find and change the file. */
static int every_other_time(void)
{
	const char *name = getenv("MINI_HOST_FILE");
	struct stat info;
	if (!name || stat(name, &info) < 0)
		return PASSED;
	chmod(name, info.st_mode ^ 0100);
	return info.st_mode & 0100 ? FAILED : PASSED;
}

static int naps(void)
{
	usleep(150 * 1000);
	return PASSED;
}

static int prints_much(void)
{
	for (int line = 0; line < 400; line++)
		printf("mini.cc:%d: a line that takes some room in a journal\n", line);
	return FAILED;
}

static const struct {
	const char *suite, *name, *note;
	int (*run)(void);
} cases[] = {
	{ "Basics", "Passes", "", passes },
	{ "Basics", "Fails", "", fails },
	{ "Basics", "Skips", "", skips },
	{ "Basics", "DISABLED_Off", "", fails },
	{ "Bad", "Crashes", "", crashes },
	{ "Bad", "AfterTheCrash", "", passes },
	{ "Bad", "Hangs", "", hangs },
	{ "Bad", "Exits", "", exits },
	{ "Bad", "LeavesAProcess", "", leaves },
	{ "Bad", "PrintsGarbage", "", garbage },
	{ "Bad", "PrintsMuch", "", prints_much },
	{ "Bad", "Naps", "", naps },
	{ "Box", "FindsTheHostFile", "", finds_host_file },
	{ "Box", "HangsWithoutTheHostFile", "", hangs_without_host_file },
	{ "Box", "EveryOtherTime", "", every_other_time },
	{ "Typed/0", "Works", "  # TypeParam = int", passes },
	{ "All/Params", "Works/0", "  # GetParam() = \"a.\\n  b\"", passes },
	{ "All/Params", "Works/1", "  # GetParam() = 7", passes },
	{ "All/Params", "Works/named", "  # GetParam() = 8", passes },
};
#define COUNT (sizeof(cases) / sizeof(cases[0]))

static int wanted(const char *filter, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = filter; (at = strstr(at, name)); at += length)
		if ((at == filter || at[-1] == ':') && (at[length] == ':' || !at[length]))
			return 1;
	return !*filter;
}

static void list(void)
{
	printf("Running main() from a file\n");
	for (size_t i = 0; i < COUNT; i++) {
		if (!i || strcmp(cases[i].suite, cases[i - 1].suite))
			printf("%s.%s\n", cases[i].suite, strchr(cases[i].suite, '/') && *cases[i].note == ' ' &&
				strstr(cases[i].note, "TypeParam") ? cases[i].note : "");
		printf("  %s%s\n", cases[i].name, strstr(cases[i].note, "GetParam") ? cases[i].note : "");
	}
}

int main(int argc, char **argv)
{
	const char *mode = getenv("MINI_MODE") ? getenv("MINI_MODE") : "", *filter = "", *json = "";
	static const char *endings[] = { "[       OK ]", "[  FAILED  ]", "[  SKIPPED ]" };
	int failed = 0, ran = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--gtest_list_tests")) {
			if (strcmp(mode, "no cases"))
				list();
			return 0;
		}
		if (!strcmp(argv[i], "--help"))
			return printf("  --gtest_list_tests\n") < 0;
		if (!strncmp(argv[i], "--gtest_filter=", 15))
			filter = argv[i] + 15;
		if (!strncmp(argv[i], "--gtest_output=json:", 20))
			json = argv[i] + 20;
	}
	if (!strcmp(mode, "crash at start"))
		raise(SIGSEGV);
	FILE *out = fopen(*json ? json : "/dev/null", "w");
	if (!out)
		return 3;
	if (!strcmp(mode, "close output"))
		close(1);
	fprintf(out, "{\"testsuites\": [");
	printf("[==========] Running some tests.\n");
	for (size_t i = 0; i < COUNT; i++) {
		char name[200];
		snprintf(name, sizeof(name), "%s.%s", cases[i].suite, cases[i].name);
		if (!wanted(filter, name) || strstr(name, "DISABLED_"))
			continue;
		printf("[ RUN      ] %s\n", name);
		fflush(stdout);
		int result = cases[i].run();
		printf("%s %s%s (1 ms)\n", endings[result], name, result == FAILED && *cases[i].note ? ", where GetParam() = 7" : "");
		fflush(stdout);
		failed |= result == FAILED;
		fprintf(out, "%s{\"name\": \"%s\", \"testsuite\": [{\"name\": \"%s\", \"status\": \"RUN\", \"result\": \"%s\","
			" \"time\": \"0.001s\"%s}]}", ran++ ? ", " : "", cases[i].suite, cases[i].name,
			result == SKIPPED ? "SKIPPED" : "COMPLETED",
			result == FAILED ? ", \"failures\": [{\"failure\": \"mini.cc:12\\nfrom the file\"}]" : "");
	}
	fprintf(out, strcmp(mode, "bad json") ? "]}\n" : "]");
	fclose(out);
	printf("[==========] %d tests from 1 test suite ran. (1 ms total)\n", ran);
	if (failed)
		printf("[  FAILED  ] Basics.Fails\n");
	fflush(stdout);
	if (!strcmp(mode, "crash at exit"))
		raise(SIGABRT);
	return failed;
}
