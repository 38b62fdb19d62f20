package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// A cluster has the objects that `kubectl apply -k` would create.
type cluster struct {
	secrets  map[string]corev1.Secret
	services []corev1.Service
	policies []networkingv1.NetworkPolicy
	pods     map[string]corev1.PodTemplateSpec // by the name of their Deployment or CronJob
	selector map[string]string                 // of the Deployment
}

// render renders the kustomization. A field that Kubernetes does not know is an error.
func render(t *testing.T) cluster {
	t.Helper()
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../deploy/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{secrets: make(map[string]corev1.Secret), pods: make(map[string]corev1.PodTemplateSpec)}
	for _, object := range objects.Resources() {
		text, err := object.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		decode := func(into any) {
			if err := yaml.UnmarshalStrict(text, into); err != nil {
				t.Errorf("%s: %v", object.CurId(), err)
			}
		}
		switch object.GetKind() {
		case "Namespace":
			decode(&corev1.Namespace{})
			continue
		case "Secret":
			var s corev1.Secret
			decode(&s)
			c.secrets[s.Name] = s
		case "Service":
			var s corev1.Service
			decode(&s)
			c.services = append(c.services, s)
		case "NetworkPolicy":
			var p networkingv1.NetworkPolicy
			decode(&p)
			c.policies = append(c.policies, p)
		case "Deployment":
			var d appsv1.Deployment
			decode(&d)
			c.pods[d.Name], c.selector = d.Spec.Template, d.Spec.Selector.MatchLabels
		case "CronJob":
			var j batchv1.CronJob
			decode(&j)
			c.pods[j.Name] = j.Spec.JobTemplate.Spec.Template
		default:
			t.Errorf("%s is not checked", object.CurId())
		}
		if object.GetNamespace() != "lockmw" {
			t.Errorf("%s is in the namespace %q", object.CurId(), object.GetNamespace())
		}
	}
	if len(c.pods) != 2 || len(c.secrets) != 2 || len(c.services) != 1 || len(c.policies) != 2 {
		t.Fatalf("rendered %+v", c)
	}
	return c
}

// The namespace refuses pods that break the profile "restricted".
func TestContainersHaveNoRightsThatTheyDoNotNeed(t *testing.T) {
	for name, pod := range render(t).pods {
		for _, fault := range rights(pod.Spec) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

func rights(pod corev1.PodSpec) (faults []string) {
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	p := pod.SecurityContext
	must(p != nil && is(p.RunAsNonRoot, true) && p.RunAsUser != nil && *p.RunAsUser > 0, "may run as root")
	must(p != nil && p.SeccompProfile != nil && p.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "no seccomp profile")
	must(is(pod.AutomountServiceAccountToken, false), "has a token of the API server")
	must(is(pod.EnableServiceLinks, false), "services set variables that begin with LOCKMW_")
	for _, c := range pod.Containers {
		s := c.SecurityContext
		must(s != nil && is(s.ReadOnlyRootFilesystem, true), "%s: may write to its file system", c.Name)
		must(s != nil && is(s.AllowPrivilegeEscalation, false), "%s: may gain privileges", c.Name)
		must(s != nil && s.Capabilities != nil && len(s.Capabilities.Drop) == 1 && s.Capabilities.Drop[0] == "ALL", "%s: has capabilities", c.Name)
		must(!c.Resources.Limits.Memory().IsZero() && !c.Resources.Requests.Cpu().IsZero(), "%s: no resources", c.Name)
		_, tag, _ := strings.Cut(c.Image, ":")
		must(tag != "" && tag != "latest", "%s: the image %s has no version", c.Name, c.Image)
	}
	return faults
}

func is(value *bool, want bool) bool { return value != nil && *value == want }

// Objects name each other. A name that leads nowhere would only be noticed in the cluster.
func TestNamesLeadToObjects(t *testing.T) {
	c := render(t)
	for name, pod := range c.pods {
		ports := portsOf(pod)
		for _, container := range pod.Spec.Containers {
			for _, from := range container.EnvFrom {
				if _, ok := c.secrets[from.SecretRef.Name]; !ok {
					t.Errorf("%s: there is no secret %s", name, from.SecretRef.Name)
				}
			}
			for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
				if probe != nil && !ports[probe.HTTPGet.Port.StrVal] {
					t.Errorf("%s: a probe asks the unknown port %v", name, probe.HTTPGet.Port)
				}
			}
		}
	}
	page := c.pods["lockmw"]
	if !matches(c.selector, page.Labels) {
		t.Error("the Deployment does not select its pods")
	}
	service := c.services[0]
	if !matches(service.Spec.Selector, page.Labels) || !portsOf(page)[service.Spec.Ports[0].TargetPort.StrVal] {
		t.Errorf("the Service leads nowhere: %+v", service.Spec)
	}
	for _, p := range c.policies {
		pod, ok := c.pods[p.Name]
		if !ok || !matches(p.Spec.PodSelector.MatchLabels, pod.Labels) {
			t.Errorf("the NetworkPolicy %s selects no pods", p.Name)
		}
		for _, rule := range p.Spec.Ingress {
			if port := rule.Ports[0].Port.StrVal; !portsOf(pod)[port] {
				t.Errorf("the NetworkPolicy %s opens the unknown port %q", p.Name, port)
			}
		}
	}
}

func portsOf(pod corev1.PodTemplateSpec) map[string]bool {
	ports := make(map[string]bool)
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			ports[p.Name] = true
		}
	}
	return ports
}

func matches(selector, of map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

// Without the proxy, everyone in the cluster could read the locks.
func TestOnlyTheProxyReachesThePage(t *testing.T) {
	var page, login corev1.Container
	for _, c := range render(t).pods["lockmw"].Spec.Containers {
		switch c.Name {
		case "lockmw":
			page = c
		case "login":
			login = c
		}
	}
	const address = "127.0.0.1:8080"
	if len(page.Args) < 2 || page.Args[0] != "serve" || page.Args[1] != address {
		t.Errorf("the page listens on %v", page.Args)
	}
	if !strings.Contains(strings.Join(login.Args, " "), "--upstream=http://"+address+"/") {
		t.Errorf("the proxy asks another address: %v", login.Args)
	}
	for _, p := range page.Ports {
		if p.Name != "health" {
			t.Errorf("the page has the port %s", p.Name)
		}
	}
}
