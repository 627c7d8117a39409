#pragma once
// Each verb adds itself to the command line: its flags (cli/flags.h), its help, and what it runs.

namespace CLI {
class App;
}

namespace transformer::cli {

void add_classify(CLI::App& app);
void add_demo(CLI::App& app);
void add_embed(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_forecast(CLI::App& app);
void add_explain(CLI::App& app);
void add_generate(CLI::App& app);
void add_inspect(CLI::App& app);
void add_merge(CLI::App& app);
void add_run(CLI::App& app);
void add_serve(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_train(CLI::App& app);
void add_translate(CLI::App& app);

}  // namespace transformer::cli
