#include <tsq/quantize.h>
