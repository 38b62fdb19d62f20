package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"sigs.k8s.io/yaml"
)

const composeDir = "../../deploy/compose"

// compose loads the Compose file. A field that Compose does not know is an error.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(composeDir, "compose.yaml")}, cli.WithDotEnv)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeServicesArePinnedAndLocal(t *testing.T) {
	pinned := regexp.MustCompile(`:v?\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range compose(t).Services {
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %s has no version", name, s.Image)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s: others reach the port %s", name, p.Published)
			}
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: %v, read-only %t", name, err, v.ReadOnly)
			}
		}
	}
}

// Services find each other by name. An address of another one would only be noticed when it runs.
func TestComposeServicesFindEachOther(t *testing.T) {
	services := compose(t).Services
	address := regexp.MustCompile(`\b([a-z]+):(\d{4,5})\b`)
	texts := []string{strings.Join(services["shop"].Command, " ")}
	for _, name := range []string{"prometheus.yaml", "grafana/datasources.yaml"} {
		texts = append(texts, read(t, filepath.Join(composeDir, name)))
	}
	for _, name := range []string{"page", "customers"} {
		for _, value := range services[name].Environment {
			texts = append(texts, *value)
		}
	}
	found := 0
	for _, text := range texts {
		for _, a := range address.FindAllStringSubmatch(text, -1) {
			if _, ok := services[a[1]]; !ok {
				t.Errorf("there is no service at %s", a[0])
			}
			found++
		}
	}
	if found < 7 {
		t.Errorf("found only %d addresses", found)
	}
}

func TestGrafanaFindsItsFiles(t *testing.T) {
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool           `json:"isDefault"`
			JSONData                     map[string]any `json:"jsonData"`
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(composeDir, "grafana", "datasources.yaml"))), &sources); err != nil {
		t.Error(err)
	}
	uids := make(map[string]bool)
	for _, s := range sources.Datasources {
		uids[s.UID] = true
	}
	for _, s := range sources.Datasources {
		links, _ := s.JSONData["exemplarTraceIdDestinations"].([]any)
		for _, l := range links {
			if uid, _ := l.(map[string]any)["datasourceUid"].(string); !uids[uid] {
				t.Errorf("%s links exemplars to the unknown data source %q", s.Name, uid)
			}
		}
	}
	if !uids["prometheus"] || !uids["jaeger"] {
		t.Errorf("the data sources are %v", uids)
	}
	var dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(composeDir, "grafana", "dashboards.yaml"))), &dashboards); err != nil {
		t.Fatal(err)
	}
	for _, v := range compose(t).Services["grafana"].Volumes {
		if filepath.Base(v.Source) == "dashboard.json" && filepath.Dir(v.Target) == dashboards.Providers[0].Options.Path {
			return
		}
	}
	t.Error("the dashboard is not where the provider looks")
}

func TestDockerfilesAreValid(t *testing.T) {
	for path, targets := range map[string][]string{
		filepath.Join(composeDir, "Dockerfile"): {"shop", "lockmw"},
		"../goreleaser/Dockerfile":              {""},
	} {
		result, err := parser.Parse(strings.NewReader(read(t, path)))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if len(result.Warnings) > 0 {
			t.Errorf("%s: %v", path, result.Warnings)
		}
		stages, _, err := instructions.Parse(result.AST, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, target := range targets {
			if _, ok := instructions.HasStage(stages, target); !ok && target != "" {
				t.Errorf("%s has no stage %s", path, target)
			}
		}
		if last := stages[len(stages)-1]; !strings.HasSuffix(last.BaseName, ":nonroot") {
			t.Errorf("%s: the image runs as root: %s", path, last.BaseName)
		}
	}
	for name, s := range compose(t).Services {
		if s.Build != nil && !strings.Contains(read(t, filepath.Join(s.Build.Context, s.Build.Dockerfile)), " AS "+s.Build.Target+"\n") {
			t.Errorf("%s: no stage %s", name, s.Build.Target)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
