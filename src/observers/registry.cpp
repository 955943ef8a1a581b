#include <tsq/observer.h>
