/* Burns time below 40 KB of stack. */
#include <stdio.h>
#include <string.h>

int deep(int left)
{
	volatile char frame[4000];

	memset((char *)frame, left, sizeof frame);
	if (left > 0)
		return deep(left - 1) + frame[left];
	for (int i = 0; i < 100000; i++)
		frame[i % 4000] += i;
	return frame[0];
}

int main(void)
{
	puts("@ready");
	fflush(stdout);
	for (int sum = 0;; sum += deep(9))
		if (sum == 42)
			putchar(' ');
}
