#pragma once

#include "cli/process/session.h"

namespace tsq::cli {

/// Each adds one command: its options, its help, and what it does when the command line names it.
void add_quantize(CLI::App& app, Session& session);
void add_prepare(CLI::App& app, Session& session);
void add_calibrate(CLI::App& app, Session& session);
void add_convert(CLI::App& app, Session& session);
void add_lower(CLI::App& app, Session& session);
void add_explain(CLI::App& app, Session& session);
void add_sensitivity(CLI::App& app, Session& session);
void add_inspect(CLI::App& app, Session& session);
void add_compare(CLI::App& app, Session& session);
void add_bench(CLI::App& app, Session& session);
void add_run(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_report(CLI::App& app, Session& session);
void add_tune(CLI::App& app, Session& session);
void add_backend_config(CLI::App& app, Session& session);
void add_qconfig(CLI::App& app, Session& session);

}  // namespace tsq::cli
