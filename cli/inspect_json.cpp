#include "cli/inspect_report.h"
#include "cli/json.h"

namespace zero::cli {
namespace {

using checkpoint::Inspection;
using checkpoint::Piece;

Json sizes_of(const checkpoint::Blobs& blobs) {
  Json sizes = Json::object();
  for (const auto& [key, blob] : blobs) sizes[key] = blob.size();
  return sizes;
}

Json parameter_of(const Inspection& what, std::int32_t row) {
  const auto& parameters = what.common.parameters;
  const ParameterSpec& spec = parameters[static_cast<std::size_t>(row)];
  Json states = Json::array();
  for (const auto& [state, sum] : sums_by_state(pieces_of(what, row))) {
    states.push_back({{"name", state}, {"dtype", name_of(sum.dtype)}, {"bytes", sum.bytes}});
  }
  Json parameter = {
      {"name", spec.name},   {"shape", spec.shape},      {"dtype", name_of(spec.dtype)},
      {"group", spec.group}, {"kind", kind_of(spec)},    {"trainable", spec.trainable},
      {"alias_of", nullptr}, {"elements", spec.numel()}, {"applied_steps", nullptr},
      {"states", states}};
  if (spec.alias_of != -1) {
    parameter["alias_of"] = parameters[static_cast<std::size_t>(spec.alias_of)].name;
  }
  if (const auto steps = applied_steps_of(what, row)) parameter["applied_steps"] = *steps;
  return parameter;
}

Json memory_of(const std::optional<checkpoint::RankMemory>& memory) {
  if (!memory) return nullptr;
  return {{"host", memory->host}, {"device", memory->device}};
}

Json memory_sums(const Inspection& what) {
  const auto sums = memory_sums_of(what);
  if (!sums) return nullptr;
  return {{"host", sums->host},
          {"device", sums->device},
          {"largest_host", sums->largest_host},
          {"largest_device", sums->largest_device}};
}

Json ranks_of(const Inspection& what) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < what.rank_blobs.size(); ++rank) {
    const checkpoint::FileRecord& file = what.manifest.shard(static_cast<int>(rank));
    ranks.push_back({{"rank", rank},
                     {"file", file.name},
                     {"bytes", file.size},
                     {"blobs", sizes_of(what.rank_blobs[rank])},
                     {"memory", memory_of(what.memory[rank])},
                     {"pieces", Json::array()}});
  }
  for (const Piece& piece : what.pieces) {
    const auto row = static_cast<std::size_t>(piece.extent.parameter);
    ranks[static_cast<std::size_t>(piece.rank)]["pieces"].push_back(
        {{"parameter", what.common.parameters[row].name},
         {"state", piece.state},
         {"dtype", name_of(piece.dtype)},
         {"begin", piece.extent.begin},
         {"end", piece.extent.end},
         {"offset", piece.offset},
         {"bytes", piece.bytes()}});
  }
  return ranks;
}

Json files_of(const checkpoint::Manifest& manifest) {
  Json files = Json::array();
  for (const checkpoint::FileRecord& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.size}, {"xxh3", checkpoint::to_text(file.hash)}});
  }
  return files;
}

void add_common(Json& json, const checkpoint::CommonState& common) {
  Json groups = Json::array();
  for (const checkpoint::GroupOptions& options : common.groups) {
    Json group = Json::object();
    for (const auto& [option, value] : options) group[option] = json_number(value);
    groups.push_back(group);
  }
  json["groups"] = groups;
  json["scaler"] = {{"scale", json_number(common.scaler.scale)},
                    {"growth_tracker", common.scaler.growth_tracker},
                    {"hysteresis_left", common.scaler.hysteresis_left},
                    {"consecutive_skips", common.scaler.consecutive_skips}};
  json["counters"] = Json::object();
  for (const auto& [name, value] : common.counters) json["counters"][name] = value;
  json["blobs"] = sizes_of(common.blobs);
  json["surplus_rank_blobs"] = Json::object();
  for (const auto& [rank, blobs] : common.surplus_rank_blobs) {
    json["surplus_rank_blobs"][std::to_string(rank)] = sizes_of(blobs);
  }
}

Json totals_of(const Inspection& what) {
  std::map<std::string, std::uint64_t> kinds;
  for (const ParameterSpec& parameter : what.common.parameters) ++kinds[kind_of(parameter)];
  std::uint64_t data = 0;
  for (const Piece& piece : what.pieces) data += piece.bytes();
  return {{"parameters", what.common.parameters.size()},
          {"trainable", kinds["trainable"]},
          {"frozen", kinds["frozen"]},
          {"buffers", kinds["buffer"]},
          {"aliases", kinds["alias"]},
          {"state_bytes", data},
          {"memory", memory_sums(what)},
          {"bytes", what.manifest.bytes()}};
}

Json heading(const std::string& directory, const checkpoint::Manifest& manifest) {
  return {{"directory", directory},
          {"run_id", manifest.run_id},
          {"step", manifest.step},
          {"world_size", manifest.world_size},
          {"stage", manifest.stage},
          {"created", manifest.created},
          {"writer", manifest.writer},
          {"attempt", manifest.attempt},
          {"block_bytes", manifest.block_bytes}};
}

}  // namespace

std::string inspection_json(const std::string& directory, const Inspection& what) {
  Json json = heading(directory, what.manifest);
  json["files"] = files_of(what.manifest);
  json["parameters"] = Json::array();
  for (std::size_t row = 0; row < what.common.parameters.size(); ++row) {
    json["parameters"].push_back(parameter_of(what, static_cast<std::int32_t>(row)));
  }
  json["states"] = Json::object();
  for (const auto& [state, sum] : sums_by_state(what.pieces)) {
    json["states"][state] = {{"elements", sum.elements}, {"bytes", sum.bytes}};
  }
  add_common(json, what.common);
  json["ranks"] = ranks_of(what);
  json["totals"] = totals_of(what);
  return to_text(json);
}

std::string parameter_json(const std::string& directory, const Inspection& what,
                           std::int32_t parameter) {
  Json json = heading(directory, what.manifest);
  json["parameter"] = parameter_of(what, parameter);
  Json pieces = Json::array();
  for (const Piece& piece : pieces_of(what, owner_of(what, parameter))) {
    pieces.push_back({{"state", piece.state},
                      {"dtype", name_of(piece.dtype)},
                      {"begin", piece.extent.begin},
                      {"end", piece.extent.end},
                      {"rank", piece.rank},
                      {"file", piece.file},
                      {"offset", piece.offset},
                      {"bytes", piece.bytes()}});
  }
  json["parameter"]["pieces"] = pieces;
  return to_text(json);
}

}  // namespace zero::cli
