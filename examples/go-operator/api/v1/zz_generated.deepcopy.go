package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies all of a WebsiteStatus.
func (in *WebsiteStatus) DeepCopyInto(out *WebsiteStatus) {
	*out = *in
	if in.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(in.Conditions))
		for i := range in.Conditions {
			in.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// DeepCopy returns a copy of a WebsiteStatus.
func (in *WebsiteStatus) DeepCopy() *WebsiteStatus {
	out := new(WebsiteStatus)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies all of a Website.
func (in *Website) DeepCopyInto(out *Website) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Status.DeepCopyInto(&out.Status)
}

// DeepCopyObject returns a copy of a Website.
func (in *Website) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	out := new(Website)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject returns a copy of a WebsiteList.
func (in *WebsiteList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	out := &WebsiteList{TypeMeta: in.TypeMeta, Items: make([]Website, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
