#include "peers.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "transformer/core/error.h"

namespace transformer::bench {

bool peers_enabled() {
  const char* python = std::getenv("TRANSFORMER_PEER_PYTHON");
  return python != nullptr && *python != '\0';
}

std::vector<nlohmann::json> run_peer(const std::string& script, const std::string& arguments) {
  const std::string command = "\"$TRANSFORMER_PEER_PYTHON\" '" TRANSFORMER_SOURCE_DIR "/bench/peers/" + script + "' " + arguments;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) fail("bench", "cannot start {}", command);
  std::vector<nlohmann::json> lines;
  std::string line;
  for (int c = 0; (c = std::fgetc(pipe.get())) != EOF;) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    if (line.starts_with('{')) lines.push_back(nlohmann::json::parse(line));
    line.clear();
  }
  if (lines.empty()) fail("bench", "{} printed no measurement", command);
  return lines;
}

void print_peers_hint() {
  if (!peers_enabled())
    std::printf("\nBeside PyTorch: set TRANSFORMER_PEER_PYTHON to a python3 that has torch (see bench/peers/README.md).\n");
}

std::string peer_name(const nlohmann::json& line) {
  return fmt::format("{} {} {}", line.value("peer", "peer"), line.value("version", ""), line.value("mode", ""));
}

}  // namespace transformer::bench
