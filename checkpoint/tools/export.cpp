#include "checkpoint/tools/export.h"

#include "checkpoint/tools/export_folder.h"
#include "checkpoint/tools/export_formats.h"
#include "checkpoint/tools/new_files.h"

namespace zero::checkpoint {

ExportResult export_parameters(const Reader& reader, FileSystem& files, const std::string& path,
                               const ExportOptions& options) {
  ZERO_REQUIRE(!path.empty(), "an export needs a name for its file, it is empty");
  const ExportContent content = plan_export(reader, options);
  require_absent(files, path);
  const ExportFolder folder(files, parent_path(path));
  ExportResult result;
  result.warnings = folder.leftovers();
  for (const auto& [alias, owner] : content.aliases) result.aliases.push_back(alias);
  if (options.format == ExportFormat::kHdf5) {
    export_hdf5(reader, files, path, options, content, result);
  } else {
    export_safetensors(reader, files, path, options, content, result);
  }
  return result;
}

}  // namespace zero::checkpoint
